-- Extend the leases that are held and have not run out, and store the worker's report.
-- ARGV: now, until, worker (WorkerRow), lease count, ids, versions
-- Answers: the operator's command for the worker, the positions of the lost leases, when the first lease of all ends

local now, ends = tonumber(ARGV[1]), ARGV[2]
local count, ids, versions = tonumber(ARGV[4]), cmsgpack.unpack(ARGV[5]), cmsgpack.unpack(ARGV[6])

-- The worker's new report; without a heartbeat only the time is updated. The command is the operator's.
local function register_worker(reported)
  local _, $WorkerRow = take(reported, #$WorkerRow, #$WorkerRow:head)
  local report = $WorkerRow{}
  local stored = salvage(call('HGET', P .. ':workers', id) or '', #$WorkerRow, #$WorkerRow:head)
  -- A damaged report counts as none.
  if #stored == #$WorkerRow and is_whole_number(stored[$WorkerRow.started_at]) and is_name(stored[$WorkerRow.command])
  then
    if heartbeat == 0 then
      local $WorkerRow = unpack(stored, 1, #$WorkerRow)
      local known = $WorkerRow{}
      known.seen_at, known.state, known.running, report = report.seen_at, report.state, report.running, known
    else
      report.started_at, report.command = stored[$WorkerRow.started_at], stored[$WorkerRow.command]
    end
  end
  call('HSET', P .. ':workers', id, $WorkerRow:head .. pack($WorkerRow(report)))
  return report.command
end

local members, lost, held, held_count = {}, {}, {}, 0
local known = read_in_parts('HMGET', IDS, ids, count)
for i = 1, count do members[i] = known[i] or '' end
local records = records_of(members, count)
local lease_ends = read_in_parts('ZMSCORE', LEASES, members, count)
for i = 1, count do
  local is_whole, _, $Record[..version] = pcall(take, records[i], #$Record[..version])
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
