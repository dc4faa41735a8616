-- Lanes take turns: of those whose next job is equally urgent, each has one before any has two, and the next claim goes
-- on with the lane after the one that was served last. Which that is, a worker remembers for each queue and level; and
-- where it stopped, if there were more lanes than one claim should look at.
--
-- By other orders than that of priority all lanes are of one level, ''.

local LANES_AT_ONCE, MOST_LANES = 50, 1000

-- A function that tells the next turns (level and lane) of this level; none at the end. `left` is where an earlier walk
-- stopped: it notes in it how far it got.
local function walk(queue, level, served, left)
  local key, low, high = P .. ':turns:' .. queue, '-', '+'
  if level ~= '' then low, high = '[' .. level, '(' .. string.format('%03d', level + 1) end
  local legs = served and {{'(' .. served, high}, {low, '[' .. served}} or {{low, high}}
  local leg = math.min(left.level == level and left.leg or 1, #legs)
  if left.level == level then legs[leg][1] = '(' .. left.after end
  return function()
    while legs[leg] do
      local found = call('ZRANGEBYLEX', key, legs[leg][1], legs[leg][2], 'LIMIT', 0, LANES_AT_ONCE)
      local last = found[#found]
      if last then
        left.level, left.leg, left.after = level, leg, last
        legs[leg][1] = '(' .. last
      end
      if #found < LANES_AT_ONCE then leg = leg + 1 end
      if last then return found end
    end
  end
end

-- The most urgent level of lanes, but for those that are more urgent than `from`.
local function first_level(queue, from)
  local first = call('ZRANGEBYLEX', P .. ':turns:' .. queue, '[' .. from, '+', 'LIMIT', 0, 1)[1]
  return first and first:sub(1, 3)
end

-- Whose turn comes first: by name from the lane after the last one served; if none was, who waits longest.
local function in_turn(lanes, level, served, newest_first)
  local function age(lane)
    local head = lane.heads[lane.at]
    return head.place or head.rank, head.member
  end
  table.sort(lanes, function(a, b)
    if served then
      local one, other = level .. a.name, level .. b.name
      if (one <= served) ~= (other <= served) then return other <= served end
      return one < other
    end
    local one, first = age(a)
    local other, second = age(b)
    if newest_first then one, first, other, second = other, second, one, first end
    if one ~= other then return one < other end
    return first < second
  end)
end

-- Choose up to `room` jobs. The ways of `by`: `level_of` a head, `open` a lane by name (nothing if it is shut or empty),
-- `next_of` a lane its next head (nothing at its end), `lets_in` (through the gates of a lane), `arrived` (lanes that
-- have come up meanwhile), `newest_first`; `free` is the lane of what waits in none. Whether it looked at all of them.
local function choose_in_turn(queue, room, free, memory, by)
  local chosen, seen, ready = {}, 0, {}
  local served, left = memory.served, memory.left or {}
  local again

  local function put(list, level, lane)
    local of_head = by.level_of(lane.heads[lane.at])
    if of_head <= level then
      list[#list + 1] = lane
    else
      ready[of_head] = ready[of_head] or {}
      table.insert(ready[of_head], lane)
    end
  end

  local function serve(lanes, level, last)
    in_turn(lanes, level, last, by.newest_first)
    for _, lane in ipairs(lanes) do
      if #chosen >= room then return end
      if by.lets_in(lane) then
        chosen[#chosen + 1] = lane.heads[lane.at]
        lane.at, again[#again + 1], served[level] = lane.at + 1, lane, level .. lane.name
      end
    end
  end

  local function open_all(lanes, level, turns)
    for _, turn in ipairs(turns or {}) do
      local lane = by.open(turn:sub(4))
      if lane then put(lanes, level, lane) end
    end
    for _, lane in ipairs(by.arrived()) do put(lanes, level, lane) end
  end

  -- Whether there may be more of the level than one claim should look at.
  local function serve_level(level)
    local lanes, last, more = ready[level] or {}, served[level], walk(queue, level, served[level], left)
    ready[level], again = nil, {}
    local turns
    repeat
      turns = more()
      seen = seen + (turns and #turns or 0)
      open_all(lanes, level, turns)
      serve(lanes, level, last)
      lanes = {}
      if #chosen >= room then return false end
      if seen >= MOST_LANES then return true end
    until not turns
    while #again > 0 and #chosen < room do
      local those = again
      again, lanes = {}, {}
      for _, lane in ipairs(those) do
        if by.next_of(lane) then put(lanes, level, lane) end
      end
      open_all(lanes, level)
      serve(lanes, level, last)
    end
    return false
  end

  local level = by.level_of(free.heads[1])
  return chosen, level, serve_level, left, first_level
end
