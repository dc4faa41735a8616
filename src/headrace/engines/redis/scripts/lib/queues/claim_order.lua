-- The front of a lane, or of the jobs without a lane, in the requested order: by priority, or fifo, lifo,
-- weighted_random, fresh_first, or by priority with ageing (milliseconds of waiting for one point).

local SCAN_LIMIT = 2000 -- jobs that a claim reads to find some that were never tried

local function as_score(number)
  return string.format('%.0f', number)
end

-- For each priority with jobs, the score in the middle of them: LIFO jobs, whose rank is negative, are before it, and
-- the others from it on.
local function middles(key)
  local found, from = {}, '-inf'
  while true do
    local first = call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if not first then return found end
    local middle = math.floor((tonumber(first) + RANKS / 2) / RANKS) * RANKS
    found[#found + 1], from = middle, '(' .. as_score(middle + MAX_RANK)
  end
end

-- Up to `max_jobs` jobs from one end of a range of scores, by score upward or downward, and with equal scores by number
-- upward or downward. The server sorts both upward or both downward. So where they differ, the last score that fits is
-- read again in the other order: only some of its jobs are left out.
local function from_end(key, low, high, is_up, numbers_up, max_jobs)
  local function range(first, last, up, limit)
    if up then return call('ZRANGEBYSCORE', key, first, last, 'WITHSCORES', 'LIMIT', 0, limit) end
    return call('ZREVRANGEBYSCORE', key, last, first, 'WITHSCORES', 'LIMIT', 0, limit)
  end
  local found = range(low, high, is_up, max_jobs)
  if is_up == numbers_up or #found < 2 * max_jobs then return found end
  local last, fit = found[#found], #found
  while fit > 0 and found[fit] == last do fit = fit - 2 end
  local rest = range(last, last, numbers_up, max_jobs - fit / 2)
  for i = 1, #rest do found[fit + i] = rest[i] end
  return found
end

-- The oldest or the newest jobs of a priority.
local function oldest_of(key, lane, middle, max_jobs)
  local in_order = from_end(key, as_score(middle), as_score(middle + MAX_RANK), true, true, max_jobs)
  local reversed = from_end(key, as_score(middle - MAX_RANK), '(' .. as_score(middle), false, true, max_jobs)
  return heads_of(in_order, lane), heads_of(reversed, lane)
end

local function newest_of(key, lane, middle, max_jobs)
  local in_order = from_end(key, as_score(middle), as_score(middle + MAX_RANK), false, false, max_jobs)
  local reversed = from_end(key, as_score(middle - MAX_RANK), '(' .. as_score(middle), true, false, max_jobs)
  return heads_of(in_order, lane), heads_of(reversed, lane)
end

local function by_sort_value(a, b)
  if a.sort_value ~= b.sort_value then return a.sort_value < b.sort_value end
  return a.member < b.member
end

local function by_sort_value_newest(a, b)
  if a.sort_value ~= b.sort_value then return a.sort_value > b.sort_value end
  return a.member > b.member
end

local function truncate(list, length)
  for i = #list, length + 1, -1 do list[i] = nil end
  return list
end

-- Sets the place of a head by age and priority together, and with ageing its level, the urgency in whole points: lower
-- is more urgent. All jobs age alike, so the current time does not matter.
local function set_sort_value(head, ageing)
  head.sort_value = math.abs(head.rank) - head.priority * ageing
  if ageing > 0 then head.level = math.floor(head.sort_value / ageing) end
  return head
end

local function merge_levels(key, lane, max_jobs, is_newest, ageing)
  local all = {}
  for _, middle in ipairs(middles(key)) do
    for _, found in ipairs({(is_newest and newest_of or oldest_of)(key, lane, middle, max_jobs)}) do
      for _, head in ipairs(found) do
        all[#all + 1] = set_sort_value(head, ageing)
      end
    end
  end
  table.sort(all, is_newest and by_sort_value_newest or by_sort_value)
  return truncate(all, max_jobs)
end

-- Only the first of these. The oldest job of a priority is its first one, except for LIFO jobs: so this takes one read
-- for each priority, where a claim does it in every lane.
local function most_urgent(key, lane, ageing)
  local best, from = nil, '-inf'
  while true do
    local head = heads_of(call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1), lane)[1]
    if not head then return {best} end
    local middle = (100 - head.priority) * RANKS
    from = '(' .. as_score(middle + MAX_RANK)
    for _, found in ipairs(head.rank < 0 and {oldest_of(key, lane, middle, 1)} or {{head}}) do
      local other = found[1] and set_sort_value(found[1], ageing)
      if other and (not best or by_sort_value(other, best)) then best = other end
    end
  end
end

-- Draw priorities by their weights: ten points more, ten times as often.
local function weighted_sample(key, lane, max_jobs)
  local levels, order, total = {}, {}, 0
  for _, middle in ipairs(middles(key)) do
    local waiting, reversed = oldest_of(key, lane, middle, max_jobs)
    for _, head in ipairs(reversed) do waiting[#waiting + 1] = head end
    for _, head in ipairs(waiting) do head.sort_value = math.abs(head.rank) end
    table.sort(waiting, by_sort_value)
    levels[#levels + 1] = {waiting = truncate(waiting, max_jobs), taken = 0, weight = 10 ^ (waiting[1].priority / 10)}
  end
  while #levels > 0 and #order < max_jobs do
    total = 0
    for _, level in ipairs(levels) do total = total + level.weight end
    local mark, chosen = math.random() * total, #levels
    for i, level in ipairs(levels) do
      mark = mark - level.weight
      if mark < 0 then
        chosen = i
        break
      end
    end
    local level = levels[chosen]
    level.taken = level.taken + 1
    order[#order + 1] = level.waiting[level.taken]
    if level.taken == #level.waiting then table.remove(levels, chosen) end
  end
  return order
end

-- 1 if a job was never tried, 2 if it lost its worker, 3 if it failed. Damaged jobs come first.
local function class_of(record)
  local is_whole, _, $Record[..attempt] = pcall(take, record, #$Record[..attempt])
  if not is_whole or attempt == 0 then return 1 end
  local _, _, $Record[..crashes] = pcall(take, record, #$Record[..crashes])
  return is_whole_number(crashes) and crashes > 0 and 2 or 3
end

-- The classes one after the other, each by priority. Between lanes, each is less urgent than any job of the last one.
local function fresh_first(key, lane, max_jobs)
  local scan_limit, classes = math.max(SCAN_LIMIT, max_jobs), {{}, {}, {}}
  local at, step = 0, max_jobs
  while at < scan_limit and #classes[1] < max_jobs do
    local members = call('ZRANGE', key, at, math.min(at + step, scan_limit) - 1)
    for i, record in ipairs(records_of(members, #members)) do
      local class = classes[class_of(record)]
      if #class < max_jobs then class[#class + 1] = members[i] end
    end
    if #members < step then break end
    at, step = at + step, math.min(2 * step, 1000)
  end
  local found, class_at = {}, {}
  for number, members in ipairs(classes) do
    for i = 1, math.min(#members, max_jobs - #found / 2) do
      found[#found + 1], found[#found + 2] = members[i], call('ZSCORE', key, members[i])
      class_at[#found / 2] = number
    end
  end
  local ordered = heads_of(found, lane)
  for i, head in ipairs(ordered) do head.level = string.format('%03d', head.level + 300 * (class_at[i] - 1)) end
  return ordered
end

local function front(queue, lane, order, ageing, max_jobs)
  local key = lane_key(queue, lane)
  if order == 'weighted_random' then return weighted_sample(key, lane, max_jobs) end
  if order == 'fresh_first' then return fresh_first(key, lane, max_jobs) end
  if order ~= 'priority' then return merge_levels(key, lane, max_jobs, order == 'lifo', 0) end
  if not ageing then return heads(queue, lane, max_jobs) end
  return max_jobs == 1 and most_urgent(key, lane, ageing) or merge_levels(key, lane, max_jobs, false, ageing)
end
