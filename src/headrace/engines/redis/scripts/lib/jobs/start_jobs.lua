-- Starts the jobs of a claim. `exchange` describes ARGV.

local now, worker, salt = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local outcome_count, note_count, has_spawns = tonumber(ARGV[8]), tonumber(ARGV[11]), ARGV[15] == '1'
local messages, has_changes = {}, false
local freed, frees_others = {}, false -- queues in which a plain job has completed; whether something else has ended
local claims, claim_count = {}, 0

-- Add many entries to a set that is rarely large. The server keeps up to 128 entries as a list, and scans it for each:
-- a third of an exchange with a hundred claims. A member that is too long for a list makes it a tree for good.
local MANY, TOO_LONG = 64, string.rep('-', 65)
local function add_many(key, list, n)
  if n < MANY then return write_in_parts('ZADD', key, list, n) end
  call('ZADD', key, '0', TOO_LONG)
  write_in_parts('ZADD', key, list, n)
  call('ZREM', key, TOO_LONG)
end

local CLAIM_HEAD = $ClaimedJob:head .. '\172' -- and that of its number, a text of twelve digits
local damaged = {} -- numbers of jobs whose records are damaged: they are to fail

-- The tasks that the worker knows, each between line breaks; empty if it knows all.
local KNOWN_TASKS = ARGV[20]
local unknown_pairs = {} -- queues, each with an unknown task of one of its jobs

-- The record of a job of this queue that starts to run, and its task. An error if the part read here is damaged.
local function started_record(record, first_try, this_run, of_queue)
  local behind, $Record[..worker] = take(record, #$Record[..worker])
  local has_past = finished_at or result or result_checksum or reason
  local _, $Record[queue..task] = take(record, #$Record[queue..task], behind)
  if queue ~= of_queue then error('it is of another queue') end
  return (has_past and pack('running', $Record[finished_at..reason]) or first_try)
    .. pack($next_version(version, now), attempt + 1) .. this_run .. record:sub(behind + 1), task
end

-- Start these pending jobs; whether they started. If the worker does not know the task of one, none starts. A damaged
-- job is skipped and no longer pending. The caller removes them from their sets and flushes; `on_start`, if given, is
-- called with each that starts. Jobs of one queue go to the same sets, so the lists are built here, without a call for
-- each entry.
local function start(queue, members, n, lease_until, any_expiry, on_start)
  local records = records_of(members, n)
  local payload_records = read_in_parts('HMGET', PAYLOADS, members, n)
  local leases, running, count, started_at = {}, {}, 0, text(now)
  local first_try, this_run = pack('running', nil, nil, nil, nil), pack(nil, now, worker)
  local put_before, claims_before, damaged_before = put_count, claim_count, #damaged
  local started_positions, last_task = {}, nil
  for i = 1, n do
    local member = members[i]
    local is_whole, record, task = pcall(started_record, records[i], first_try, this_run, queue)
    if is_whole and payload_records[i] then
      if task ~= last_task and KNOWN_TASKS ~= '' and not KNOWN_TASKS:find('\n' .. tostring(task) .. '\n', 1, true) then
        put_count, claim_count = put_before, claims_before
        for last = #damaged, damaged_before + 1, -1 do damaged[last] = nil end
        unknown_tasks().collect(queue, members, unknown_pairs, damaged)
        return false
      end
      last_task = task
      put_records[put_count + 1], put_records[put_count + 2] = member, record
      leases[count + 1], leases[count + 2] = lease_until, member
      running[count + 1], running[count + 2] = started_at, member
      put_count, count, claim_count = put_count + 2, count + 2, claim_count + 1
      claims[claim_count] = CLAIM_HEAD .. member .. record .. payload_records[i]
      if on_start then started_positions[#started_positions + 1] = i end
    elseif records[i] then
      damaged[#damaged + 1] = member
    end
  end
  write_in_parts('ZREM', key_of('state', 'pending'), members, n)
  if any_expiry then write_in_parts('ZREM', EXPIRING, members, n) end
  add_many(LEASES, leases, count)
  add_many(key_of('in:running', queue), running, count)
  for _, i in ipairs(started_positions) do on_start(i) end
  return true
end
