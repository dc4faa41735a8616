-- Store a step of a running job, unless it exists.
-- ARGV: now, id, version, kind, name, number, Step
-- Answers: 1, or 0 if the lease is lost

local member = call('HGET', IDS, ARGV[2])
local j = member and job_of(call('HGET', JOBS, member))
if not j or j.state ~= 'running' or j.version ~= tonumber(ARGV[3]) then return 0 end
if call('HEXISTS', steps_key(member), step_field(ARGV[4], tonumber(ARGV[6]), ARGV[5])) == 1 then return 1 end
guard_without_memory()
put_step(member, ARGV[7], call('HLEN', steps_key(member)) + 1)
append_remark(member, j, tonumber(ARGV[1]), ARGV[4], ARGV[5])
flush()
return 1
