-- The next jobs that match a filter.
-- ARGV: filter, position, "up" or "down", how many to read, how many to find, the form of the answer ("rows",
-- "records" (each after its number, without its result), "count", or the longest value of light rows), and the bounds, if they are known from an earlier answer
-- Answers: the position reached, or nothing at the end; the jobs found, or their number; how many were read; bounds

local position, is_up, scan_limit, most, mode =
  tonumber(ARGV[2]), ARGV[3] == 'up', tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local longest = tonumber(mode)
local FETCH_BATCH_SIZE = 50 -- jobs that are fetched at once: fewer take longer, and each may be a megabyte
local TIME_LIMIT = 5000 -- microseconds after which no more are fetched: every client waits meanwhile

local function clock()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The next numbers after a position: where no set is smaller than all jobs, nothing has to be sorted, as long as most
-- numbers still have a job. Otherwise nothing.
local function by_number(sets, low, high)
  low, high = range_after(position, is_up, low, math.min(high, tonumber(call('GET', P .. ':seq') or 0)))
  local first, last, count = is_up and low or math.max(low, high - scan_limit + 1),
    is_up and math.min(high, low + scan_limit - 1) or high, 0
  for _, key in ipairs(sets) do count = count + call('ZCOUNT', key, bound(first), bound(last)) end
  if count < 0.8 * scan_limit then return nil end
  local members = {}
  for i = 0, last - first do members[i + 1] = string.format('%012.0f', is_up and first + i or last - i) end
  return members
end

local deadline = clock() + TIME_LIMIT
local leading, prefilters, sets_decide = plan()
local low, high, sure_low, sure_high = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
if not low then low, high, sure_low, sure_high = bounds() end
local is_counted = mode == 'count' and sets_decide -- by the sets alone, which have no gaps between numbers
local members = leading.is_all and not is_counted and by_number(leading.ordered, low, high)
  or candidates(position, is_up, scan_limit, leading, low, high)
local scanned, reached = #members, #members == scan_limit and members[scan_limit] or false
if not filter.ids then members = prefiltered(members, prefilters) end

-- A certain match need not be fetched if it is only counted.
local sure = {}
if is_counted then
  local unsure = {}
  for _, member in ipairs(members) do
    local number = tonumber(member)
    local list = sure_low <= number and number <= sure_high and sure or unsure
    list[#list + 1] = member
  end
  members = unsure
end

-- Whether it is worth unpacking a whole job, which takes as long as all of this: it is in a requested state, and the
-- text is somewhere in its stored values.
local function is_likely(record, payload_record)
  if not record or wanted and not wanted[select(3, pcall(take, record, 1))] then return false end
  return not filter.text or record:find(filter.text, 1, true)
    or payload_record and payload_record:find(filter.text, 1, true)
end

-- Without a filter, jobs with damaged records match as well.
local is_any = not wanted and not is_startable
for _, value in pairs(filter) do is_any = is_any and not value end

local found, found_records, first, is_late = {}, {}, 1, false
while first <= #members and #found < most and not is_late do
  local some = {unpack(members, first, math.min(first + FETCH_BATCH_SIZE - 1, #members))}
  local records = records_of(some, #some)
  local payload_records = filter.text and call('HMGET', PAYLOADS, unpack(some)) or {}
  for i, member in ipairs(some) do
    local j = #found < most and is_likely(records[i], payload_records[i]) and job_of(records[i])
    if j and matches(member, j) or j == nil and is_any then
      found_records[#found + 1] = longest and records[i] and without_long(records[i], $Record.result, longest) or records[i]
      found[#found + 1] = member
      if #found == most then reached = member end
    end
  end
  first = first + #some
  is_late = first <= #members and #found < most and clock() > deadline
  if is_late then reached = some[#some] end
end
if first <= #members then scanned = math.ceil(scanned * (first - 1) / #members) end
local answer = #found
for _, member in ipairs(sure) do -- the next call counts those after the last fetched one
  if not is_late or member == reached or (member < reached) == is_up then answer = answer + 1 end
end
if mode == 'rows' or longest then
  answer = rows_of(found, #found, found_records, longest)
elseif mode == 'records' then
  for i, member in ipairs(found) do found[i] = member .. without_long(found_records[i], $Record.result, 0) end
  answer = found
end
return {reached, answer, scanned, bound(low), bound(high), bound(sure_low), bound(sure_high)}
