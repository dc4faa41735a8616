-- Change a job that has not started.
-- ARGV: now, id, changes (priority, run_at, queue), the history text, then each legal state and the one it leads to,
-- ...
-- Answers: 1, or 0 if it is not in such a state; or, in a list of its own, the answer of `store_status`

local now, id, detail = tonumber(ARGV[1]), ARGV[2], ARGV[4]
local changes = cmsgpack.unpack(ARGV[3])
local priority, run_at, queue = changes[1], changes[2], changes[3]
local targets = {}
for i = 5, #ARGV, 2 do targets[ARGV[i]] = ARGV[i + 1] end

local status = store_status()
if status then return {status} end

local member = call('HGET', IDS, id)
local j = member and job_of(call('HGET', JOBS, member))
local target = j and targets[j.state]
if not target then return 0 end

guard()
record_history(member, j, now, 'update', target, detail, j.finished_at)
if queue and queue ~= j.queue then
  drop(key_of('queue', j.queue), member)
  add(key_of('queue', queue), member, member)
end
move(member, j, function()
  j.state, j.priority, j.queue = target, priority or j.priority, queue or j.queue
  if run_at then j.run_at, j.rank = run_at, rank_at(j, run_at) end
end)
flush()
if queue then call('HSETNX', QUEUES, queue, now) end
ring({['work:' .. j.queue] = true})
return 1
