-- Store a step of a running job, unless it exists.
-- ARGV: now, id, version, kind, name, number, Step
-- Answers: 1, or 0 if the lease is lost

local member = call('HGET', IDS, ARGV[2])
local j = member and job_of(call('HGET', JOBS, member))
if not j or j.state ~= 'running' or j.version ~= tonumber(ARGV[3]) then return 0 end
if call('HEXISTS', memory(member), name_of_step(ARGV[4], tonumber(ARGV[6]), ARGV[5])) == 1 then return 1 end
guard_without_memory()
keep_step(member, ARGV[7], call('HLEN', memory(member)) + 1)
file_step(member, j, tonumber(ARGV[1]), ARGV[4], ARGV[5])
flush()
return 1
