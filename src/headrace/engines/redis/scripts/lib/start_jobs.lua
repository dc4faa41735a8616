-- Starts the jobs of a claim. `exchange` describes ARGV.

local now, worker, salt = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local outcome_count, note_count, nursing = tonumber(ARGV[8]), tonumber(ARGV[11]), ARGV[15] == '1'
local messages, is_news = {}, false
local freed, frees_others = {}, false -- queues in which a plain job has completed; whether something else has ended
local claims, claim_count = {}, 0

-- Add many entries to a set that is rarely large. The server keeps up to 128 entries as a list, and scans it for each:
-- a third of an exchange with a hundred claims. A member that is too long for a list makes it a tree for good.
local MANY, TOO_LONG = 64, string.rep('-', 65)
local function add_many(key, list, n)
  if n < MANY then return in_parts('ZADD', key, list, n) end
  call('ZADD', key, '0', TOO_LONG)
  in_parts('ZADD', key, list, n)
  call('ZREM', key, TOO_LONG)
end

local spoiled = {} -- numbers of jobs whose records are damaged: they are to fail

-- The tasks that are familiar to the worker, each between line breaks; nothing if it knows all.
local FAMILIAR = ARGV[20]
local strange = {} -- queues, each with an unfamiliar task that came up in it

-- The record of a job of this queue that starts to run, and its task. An error if the part read here is damaged.
local function begun(record, first_try, this_run, queue)
  local behind, _, finished_at, result, result_checksum, reason, version, attempt = take(record, 10)
  local has_past = finished_at or result or result_checksum or reason
  local _, own_queue, _, _, _, task = take(record, 5, behind)
  if own_queue ~= queue then error('it is of another queue') end
  return (has_past and pack('running', finished_at, result, result_checksum, reason) or first_try)
    .. pack(version + 1, attempt + 1) .. this_run .. record:sub(behind + 1), task
end

-- Start these pending jobs; whether they started. If the task of one is not familiar to the worker, none starts. A
-- damaged job is skipped and no longer pending. The caller removes them from their sets and flushes; `note`, if given,
-- is called with each that starts. Jobs of one queue go to the same sets, so the lists are built here, without a call
-- for each entry.
local function start(queue, members, n, lease_until, any_lapse, note)
  local records = records_of(members, n)
  local bodies = ask_in_parts('HMGET', PAYLOADS, members, n)
  local leases, running, count, started_at = {}, {}, 0, text(now)
  local first_try, this_run = pack('running', nil, nil, nil, nil), pack(nil, now, worker)
  local kept_before, claims_before, spoiled_before, begins, last_task = kept_count, claim_count, #spoiled, {}, nil
  for i = 1, n do
    local member = members[i]
    local is_whole, record, task = pcall(begun, records[i], first_try, this_run, queue)
    if is_whole and bodies[i] then
      if task ~= last_task and FAMILIAR ~= '' and not FAMILIAR:find('\n' .. tostring(task) .. '\n', 1, true) then
        kept_count, claim_count = kept_before, claims_before
        for last = #spoiled, spoiled_before + 1, -1 do spoiled[last] = nil end
        unknown_tasks().tell(queue, members, strange, spoiled)
        return false
      end
      last_task = task
      kept[kept_count + 1], kept[kept_count + 2] = member, record
      leases[count + 1], leases[count + 2] = lease_until, member
      running[count + 1], running[count + 2] = started_at, member
      kept_count, count, claim_count = kept_count + 2, count + 2, claim_count + 1
      claims[claim_count] = '\220\0\30\172' .. member .. record .. bodies[i]
      if note then begins[#begins + 1] = i end
    elseif records[i] then
      spoiled[#spoiled + 1] = member
    end
  end
  in_parts('ZREM', named('state', 'pending'), members, n)
  if any_lapse then in_parts('ZREM', EXPIRING, members, n) end
  add_many(LEASES, leases, count)
  add_many(named('in:running', queue), running, count)
  for _, i in ipairs(begins) do note(i) end
  return true
end
