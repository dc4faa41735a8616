-- Which jobs a filter means, and the cheapest way to find them: by the smallest set that holds them all, newest or
-- oldest first, a bounded number at a time. The filter is ARGV[1].

local SMALL = 5000 -- sets in another order than that of numbers are put in order up to this size

local given = cmsgpack.unpack(ARGV[1])
local filter = {
  queue = given[2], task = given[3], tag = given[4], worker = given[5], text = given[6], since = given[7],
  before = given[8], ids = given[9], flow = given[10],
}
local is_startable = given[11] -- what waits with its own run behind it is not meant
local wanted = #given[1] > 0 and {} or nil
for _, state in ipairs(given[1]) do wanted[state] = true end

local function size_of(keys)
  local size = 0
  for _, key in ipairs(keys) do size = size + call('ZCARD', key) end
  return size
end

local function extend(list, more)
  for _, item in ipairs(more) do list[#list + 1] = item end
end

-- The sets that hold all jobs in these states: those by number, and those in another order.
local function by_state(states)
  local ordered, unordered = {}, {}
  for state in pairs(states) do
    if state == 'running' then
      unordered[#unordered + 1] = LEASES
    else
      ordered[#ordered + 1] = named('state', state)
    end
  end
  return ordered, unordered
end

local function by_queue_and_state()
  local unordered = {}
  for state in pairs(wanted) do unordered[#unordered + 1] = place(state, filter.queue) end
  if wanted.pending then unordered[#unordered + 1] = named('in:laned', filter.queue) end
  return {}, unordered
end

local function choose()
  local ordered, unordered = by_state(wanted or PLACES)
  local size = size_of(ordered) + size_of(unordered)
  local function consider(those, others)
    local in_order, in_disorder = size_of(those), size_of(others)
    if in_order + in_disorder < size and in_disorder <= SMALL then
      ordered, unordered, size = those, others, in_order + in_disorder
    end
  end
  for _, name in ipairs({'queue', 'task', 'tag', 'flow'}) do
    if filter[name] then consider({named(name, filter[name])}, {}) end
  end
  if filter.worker then consider({named('worker', filter.worker)}, {LEASES}) end
  if wanted and filter.queue then consider(by_queue_and_state()) end
  return ordered, unordered
end

-- Between which numbers are the jobs of the hours that are asked for.
local function bounds()
  local lowest, highest = 0, math.huge
  if filter.since or filter.before then
    lowest, highest = math.huge, 0
    local from = filter.since and math.floor(filter.since / 3600000) or -math.huge
    local to = filter.before and math.floor(filter.before / 3600000) or math.huge
    local spans = call('HGETALL', P .. ':spans')
    for i = 1, #spans, 2 do
      local hour = tonumber(spans[i])
      if from <= hour and hour <= to then
        local first, last = spans[i + 1]:match('(%d+) (%d+)')
        lowest, highest = math.min(lowest, tonumber(first)), math.max(highest, tonumber(last))
      end
    end
  end
  return lowest, highest
end

local function with_ids()
  local members, seen = {}, {}
  for _, member in ipairs(ask_in_parts('HMGET', IDS, filter.ids, #filter.ids)) do
    if member and not seen[member] then
      seen[member], members[#members + 1] = true, member
    end
  end
  return members
end

-- The next `n` jobs after a position that may match, in order; fewer mean that they are the last.
local function candidates(position, is_up, n)
  local low, high = bounds()
  if position and is_up then low = math.max(low, position + 1) end
  if position and not is_up then high = math.min(high, position - 1) end
  if low > high then return {} end
  local ordered, unordered, found, parts = {}, {}, {}, 0
  local function gather(members)
    for _, member in ipairs(members) do
      local seq = tonumber(member)
      if low <= seq and seq <= high then found[#found + 1] = member end
    end
  end
  if filter.ids then gather(with_ids()) else ordered, unordered = choose() end
  for _, key in ipairs(unordered) do gather(call('ZRANGE', key, 0, -1)) end
  if #found > 0 then parts = 2 end
  local lowest, highest = string.format('%.0f', low), high == math.huge and '+inf' or string.format('%.0f', high)
  for _, key in ipairs(ordered) do
    local members = is_up and call('ZRANGEBYSCORE', key, lowest, highest, 'LIMIT', 0, n)
      or call('ZREVRANGEBYSCORE', key, highest, lowest, 'LIMIT', 0, n)
    if #members > 0 then
      extend(found, members)
      parts = parts + 1
    end
  end
  if parts > 1 then table.sort(found, function(a, b) return (a < b) == is_up and a ~= b end) end
  for i = #found, n + 1, -1 do found[i] = nil end
  return found
end

local function has_text(member, j)
  local body = call('HGET', BODIES, member)
  local texts = {j.id, j.task, j.reason}
  if body then
    local _, payload, _, _, _, metadata = take(body, 5)
    -- A sealed call says nothing: what looks like the text there would be chance.
    if payload:sub(1, 10) == '{"$sealed"' then payload = '' end
    extend(texts, {payload, metadata})
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
    and (not filter.tag or call('ZSCORE', named('tag', filter.tag), member))
    and (not filter.flow or call('ZSCORE', named('flow', filter.flow), member))
    and (not filter.text or has_text(member, j))
    and not (is_startable and j.state == 'waiting' and j.finished_at)
end
