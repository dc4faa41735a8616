-- The jobs that match a filter, found by the cheapest index. The filter is ARGV[1].
--
-- A filter consists of conditions, each a list of sets: a job that meets it is in one of them. The sets of the smallest
-- condition are read, newest or oldest first, a bounded number at a time. The others prefilter: a set lookup takes
-- half as long as reading a record. The rest is compared by its record, which decides.

local MAX_SORTED_SIZE = 5000 -- sets in another order than by number are sorted up to this size
local MAX_PREFILTER_SETS = 2 -- of a prefiltering condition: looking up more sets takes longer than reading the record

local given = cmsgpack.unpack(ARGV[1])
local filter = {}
for i, name in ipairs({$SearchFilter:names}) do filter[name] = given[i] end
local is_startable = filter.startable -- waiting jobs whose own run is over do not match
local wanted = #filter.states > 0 and {} or nil
for _, state in ipairs(filter.states) do wanted[state] = true end
filter.states, filter.startable = nil, nil

local function size_of(keys)
  local size = 0
  for _, key in ipairs(keys) do size = size + call('ZCARD', key) end
  return size
end

local function extend(list, more)
  for _, item in ipairs(more) do list[#list + 1] = item end
end

-- The sets that hold all jobs in these states: those sorted by number, and the others.
local function by_state(states)
  local ordered, unordered = {}, {}
  for state in pairs(states) do
    if state == 'running' then
      unordered[#unordered + 1] = LEASES
    else
      ordered[#ordered + 1] = key_of('state', state)
    end
  end
  return ordered, unordered
end

local function by_queue_and_state()
  local unordered = {}
  for state in pairs(wanted) do unordered[#unordered + 1] = state_key(state, filter.queue) end
  if wanted.pending then unordered[#unordered + 1] = key_of('in:laned', filter.queue) end
  return {}, unordered
end

-- A job of a worker either runs or is in the worker's own set; in other states it has no worker.
local function by_worker()
  local ordered, unordered = {}, {}
  for state in pairs(wanted or STATE_SETS) do
    if state == 'running' then unordered = {LEASES} end
    if HAS_RUN[state] then ordered = {key_of('worker', filter.worker)} end
  end
  return ordered, unordered
end

-- The condition to read, and the prefilters, the smallest first; and whether sets alone decide on matches, except for
-- the time.
local function plan()
  local conditions, sets_decide = {}, not (filter.ids or filter.text or is_startable)
  local function add_condition(ordered, unordered)
    local disorder = size_of(unordered)
    local condition = {ordered = ordered, unordered = unordered, size = size_of(ordered) + disorder,
      sets = #ordered + #unordered, can_lead = disorder <= MAX_SORTED_SIZE}
    conditions[#conditions + 1] = condition
    return condition
  end
  add_condition(by_state(wanted or STATE_SETS)).can_lead = true
  conditions[1].is_all = not wanted and not filter.ids
  for _, name in ipairs({'queue', 'task', 'tag', 'flow'}) do
    if filter[name] then add_condition({key_of(name, filter[name])}, {}) end
  end
  -- Jobs of other workers run as well.
  if filter.worker and #add_condition(by_worker()).unordered > 0 then sets_decide = false end
  if wanted and filter.queue then add_condition(by_queue_and_state()) end
  table.sort(conditions, function(a, b) return a.size < b.size end)
  local leading, prefilters = nil, {}
  for _, condition in ipairs(conditions) do
    if not leading and condition.can_lead then
      leading = condition
    elseif condition.sets <= MAX_PREFILTER_SETS then
      prefilters[#prefilters + 1] = condition
    elseif wanted then
      sets_decide = false
    end
  end
  return leading, prefilters, sets_decide
end

-- Those of these jobs that are in a set of each condition, in the same order.
local function prefiltered(members, conditions)
  for _, condition in ipairs(conditions) do
    local kept, is_in = {}, {}
    for _, keys in ipairs({condition.ordered, condition.unordered}) do
      for _, key in ipairs(keys) do
        local scores = read_in_parts('ZMSCORE', key, members, #members)
        for i = 1, #members do is_in[i] = is_in[i] or scores[i] end
      end
    end
    for i, member in ipairs(members) do
      if is_in[i] then kept[#kept + 1] = member end
    end
    members = kept
  end
  return members
end

-- The bounds of the numbers of jobs from the requested hours; and the bounds within which there are no others.
local function bounds()
  local lowest, highest, sure_low, sure_high = 0, math.huge, 0, math.huge
  if filter.since or filter.before then
    lowest, highest = math.huge, 0
    local from = filter.since and math.floor(filter.since / 3600000) or -math.huge
    local to = filter.before and math.floor(filter.before / 3600000) or math.huge
    local hours = call('HGETALL', P .. ':hours')
    for i = 1, #hours, 2 do
      local hour = tonumber(hours[i])
      local first, last = hours[i + 1]:match('(%d+) (%d+)')
      first, last = tonumber(first) or 0, tonumber(last) or math.huge -- of a damaged one nothing is certain
      hour = hour or from
      if from <= hour and hour <= to then lowest, highest = math.min(lowest, first), math.max(highest, last) end
      if hour <= from then sure_low = math.max(sure_low, last + 1) end
      if hour >= to then sure_high = math.min(sure_high, first - 1) end
    end
  end
  return lowest, highest, sure_low, sure_high
end

local function with_ids()
  local members, seen = {}, {}
  for _, member in ipairs(read_in_parts('HMGET', IDS, filter.ids, #filter.ids)) do
    if member and not seen[member] then
      seen[member], members[#members + 1] = true, member
    end
  end
  return members
end

-- A number as a bound of scores.
local function bound(number)
  return string.format('%.0f', number)
end

-- How far to go between two numbers to meet `n` jobs of these sets. If every number had a job, that would be `n`; where
-- they are rare, twice as many numbers are tried.
local function window(keys, low, high, is_up, n)
  high = math.min(high, tonumber(call('GET', P .. ':seq') or 0))
  local width = math.ceil(1.25 * n)
  while width <= high - low do
    local from, to, count = is_up and low or high - width, is_up and low + width or high, 0
    for _, key in ipairs(keys) do count = count + call('ZCOUNT', key, bound(from), bound(to)) end
    if count >= n then return from, to end
    width = 2 * width
  end
  return low, high
end

-- The next members of these sets by number, at least `n` if there are as many; and whether they are of several sets.
-- Each of several would return `n`, most of them in vain, so their reach is found out first.
local function next_of(keys, low, high, is_up, n)
  if #keys > 1 then low, high = window(keys, low, high, is_up, n) end
  local found, parts = {}, 0
  for _, key in ipairs(keys) do
    local members = is_up and call('ZRANGEBYSCORE', key, bound(low), bound(high), 'LIMIT', 0, n)
      or call('ZREVRANGEBYSCORE', key, bound(high), bound(low), 'LIMIT', 0, n)
    if #members > 0 then
      if parts == 0 then found = members else extend(found, members) end
      parts = parts + 1
    end
  end
  return found, parts > 1
end

-- The range of jobs after a position, between two numbers.
local function range_after(position, is_up, low, high)
  if position and is_up then return math.max(low, position + 1), high end
  return low, position and math.min(high, position - 1) or high
end

-- The next `n` jobs after a position that may match, in order; fewer mean that they are the last. The caller passes on
-- what it knows: the leading condition and the bounds.
local function candidates(position, is_up, n, leading, low, high)
  if not low then low, high = bounds() end
  low, high = range_after(position, is_up, low, high)
  if low > high then return {} end
  local function gather(found, members)
    for _, member in ipairs(members) do
      local seq = tonumber(member)
      if seq and low <= seq and seq <= high then found[#found + 1] = member end
    end
    return #members > 0
  end
  local found, is_mixed = {}, false
  if filter.ids then
    is_mixed = gather(found, with_ids())
  else
    leading = leading or plan()
    found, is_mixed = next_of(leading.ordered, low, high, is_up, n)
    for _, key in ipairs(leading.unordered) do is_mixed = gather(found, call('ZRANGE', key, 0, -1)) or is_mixed end
  end
  if is_mixed then
    table.sort(found) -- without a comparison function, which would take twice as long
    if not is_up then
      for i = 1, math.floor(#found / 2) do found[i], found[#found + 1 - i] = found[#found + 1 - i], found[i] end
    end
  end
  for i = #found, n + 1, -1 do found[i] = nil end
  return found
end

local function has_text(member, j)
  local payload_record = call('HGET', PAYLOADS, member)
  local texts = {j.id, j.task, j.reason}
  if payload_record then
    local p = read_payload(payload_record)
    local payload = p.payload
    -- A call that is encrypted or in the payload store is skipped: a match would be chance.
    local mark = payload:sub(1, 10)
    if mark == '{"$sealed"' or mark == '{"$stored"' then payload = '' end
    extend(texts, {payload, p.metadata})
  end
  for i = 1, 5 do
    if texts[i] and texts[i]:find(filter.text, 1, true) then return true end
  end
  return false
end

local function matches(member, j)
  return (not wanted or wanted[j.state])
    and (not filter.queue or j.queue == filter.queue)
    and (not filter.task or j.task == filter.task)
    and (not filter.worker or j.worker == filter.worker)
    and (not filter.since or j.created_at >= filter.since)
    and (not filter.before or j.created_at < filter.before)
    and (not filter.tag or call('ZSCORE', key_of('tag', filter.tag), member))
    and (not filter.flow or call('ZSCORE', key_of('flow', filter.flow), member))
    and (not filter.text or has_text(member, j))
    and not (is_startable and j.state == 'waiting' and j.finished_at)
end
