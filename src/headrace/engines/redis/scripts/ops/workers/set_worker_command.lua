-- Store a command for a worker to read at its next renewal.
-- ARGV: worker, command
-- Answers: 1, or 0 if there is no such worker

local known = call('HGET', P .. ':workers', ARGV[1])
if not known then return 0 end
guard()
local is_whole, _, id, host, pid, started_at, seen_at, state, _, queues, concurrency, running, completed, failed, tasks,
  heartbeat, capabilities = pcall(take, known, 15, 1)
if not is_whole then return 0 end
call('HSET', P .. ':workers', id, '\159' .. pack(id, host, pid, started_at, seen_at, state, ARGV[2], queues,
  concurrency, running, completed, failed, tasks, heartbeat,
  capabilities))
ring({commands = true})
return 1
