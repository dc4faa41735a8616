-- Extend the leases that are held and have not run out, and store the worker's report.
-- ARGV: now, until, worker (WorkerRow), lease count, ids, versions
-- Answers: the operator's command for the worker, the positions of the lost leases, when the first lease of all ends

local now, ends = tonumber(ARGV[1]), ARGV[2]
local count, ids, versions = tonumber(ARGV[4]), cmsgpack.unpack(ARGV[5]), cmsgpack.unpack(ARGV[6])

-- The worker's new report; without a heartbeat only the time is updated. The command is the operator's.
local function register_worker(reported)
  local _, id, host, pid, started_at, seen_at, state, command, queues, concurrency, running, completed, failed, tasks,
    heartbeat, capabilities = take(reported, 15, 1)
  local stored = salvage(call('HGET', P .. ':workers', id) or '', 15, 1)
  -- A damaged report counts as none.
  local is_known = #stored == 15 and is_whole_number(stored[4]) and is_name(stored[7])
  if is_known and heartbeat == 0 then
    _, host, pid, started_at, _, _, command, queues, concurrency, _, completed, failed, tasks, heartbeat, capabilities =
      unpack(stored, 1, 15)
  elseif is_known then
    started_at, command = stored[4], stored[7]
  end
  call('HSET', P .. ':workers', id, '\159' .. pack(id, host, pid, started_at, seen_at, state, command, queues,
    concurrency, running, completed, failed, tasks, heartbeat, capabilities))
  return command
end

local members, lost, held, held_count = {}, {}, {}, 0
local known = read_in_parts('HMGET', IDS, ids, count)
for i = 1, count do members[i] = known[i] or '' end
local records = records_of(members, count)
local lease_ends = read_in_parts('ZMSCORE', LEASES, members, count)
for i = 1, count do
  local is_whole, _, _, _, _, _, _, version = pcall(take, records[i], 6)
  if is_whole and version == versions[i] and lease_ends[i] and tonumber(lease_ends[i]) > now then
    held[held_count + 1], held[held_count + 2] = ends, members[i]
    held_count = held_count + 2
  else
    lost[#lost + 1] = i
  end
end
guard_without_memory()
local command = register_worker(ARGV[3])
write_in_parts('ZADD', LEASES, held, held_count)
return {command, lost, call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2] or false}
