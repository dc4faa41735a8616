-- Finished jobs of a queue and state that ended before a time, from either end.
-- ARGV: queue, state, before, limit, "up" or "down", the end and the number of the job to continue after, or nothing
-- Answers: number, id, task, queue, state, finished_at, version, options, has a key, is held, flow of each

local key, before, limit, is_up = state_key(ARGV[2], ARGV[1]), ARGV[3], tonumber(ARGV[4]), ARGV[5] == 'up'
local at, last = ARGV[6], ARGV[7]

-- The rank of the job to continue after, including it if we go up. Jobs of one end are sorted by number, and thousands
-- may have the same end, if they were cancelled together: a binary search finds it.
local function count_behind()
  local low, high = call('ZCOUNT', key, '-inf', '(' .. at), call('ZCOUNT', key, '-inf', at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = call('ZRANGE', key, middle, middle)[1]
    if member < last or (is_up and member == last) then low = middle + 1 else high = middle end
  end
  return low
end

local members, stop = {}, call('ZCOUNT', key, '-inf', '(' .. before)
if is_up then
  local start = at == '' and 0 or count_behind()
  stop = math.min(start + limit, stop)
  if start < stop then members = call('ZRANGE', key, start, stop - 1) end
else
  if at ~= '' then stop = math.min(count_behind(), stop) end
  if stop > 0 then members = call('ZREVRANGE', key, -stop, math.min(limit - stop, 0) - 1) end
end

local count = #members
local records = records_of(members, count)
local payload_records = read_in_parts('HMGET', PAYLOADS, members, count)
local flows = read_in_parts('HMGET', JOB_FLOW, members, count)
local has_dependencies = read_in_parts('SMISMEMBER', HAS_DEPENDENCIES, members, count)
local rows, n = {}, 0
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j then
    local p = payload_records[i] and read_payload(payload_records[i]) or {}
    n = n + 1
    rows[n] = $FinishedJob:head .. pack(tonumber(member), j.id, j.task, j.queue, j.state, j.finished_at or 0, j.version,
      p.options, p.unique_key ~= nil, is_held(member, j, flows[i] or nil, has_dependencies[i]), flows[i] or nil)
  end
end
return as_array(rows, n)
