-- Lanes take turns: of lanes whose next job is equally urgent, each gets one turn before any gets two, and the next
-- claim continues after the lane that was served last. The worker keeps for us which lane that was, for each level; and
-- where we stopped, if there were more lanes than one claim should read.
--
-- By orders other than priority all jobs are of one level, ''. The jobs without a lane are a lane of their own, ''.

local LANES_AT_ONCE, MOST_LANES = 50, 1000

-- An iterator over the lanes of a level, each with its level in front. It begins after the lane served last, or where
-- an earlier walk stopped; its position is stored in `reached`.
local function walk(queue, level, served, stopped, reached)
  local key, low, high = P .. ':turns:' .. queue, '-', '+'
  if level ~= '' then low, high = '[' .. level, '(' .. string.format('%03d', level + 1) end
  local legs, leg = served and {{'(' .. served, high}, {low, '[' .. served}} or {{low, high}}, 1
  if stopped.level == level then
    leg = math.min(stopped.leg, #legs)
    legs[leg][1] = '(' .. stopped.after
  end
  return function()
    while legs[leg] do
      local found = call('ZRANGEBYLEX', key, legs[leg][1], legs[leg][2], 'LIMIT', 0, LANES_AT_ONCE)
      local last = found[#found]
      if last then
        reached.level, reached.leg, reached.after = level, leg, last
        legs[leg][1] = '(' .. last
      end
      if #found < LANES_AT_ONCE then leg = leg + 1 end
      if last then return found end
    end
  end
end

-- The most urgent level of the queue's lanes, from this one on.
local function first_level(queue, from)
  local key = P .. ':turns:' .. queue
  while true do
    local first = call('ZRANGEBYLEX', key, '[' .. from, '+', 'LIMIT', 0, 1)[1]
    if not first or first:find('^%d%d%d') then return first and first:sub(1, 3) end
    call('ZREM', key, first) -- it is damaged
  end
end

local AGED = 'aged' -- in the memory, stands for every level

-- The key of a lane's turn within a level, as it is remembered.
local function name_in(level, lane)
  if level == AGED then return lane.name end
  return level == '' and lane.turn or level .. lane.name
end

-- Sort lanes by their turns: by name from the one after the last served; if none was, by their next jobs.
local function sort_by_turn(lanes, level, served, newest_first)
  local function by_name(a, b)
    local one, other = name_in(level, a), name_in(level, b)
    if (one <= served) ~= (other <= served) then return other <= served end
    return one < other
  end
  local function by_age(a, b)
    a, b = a.heads[a.at], b.heads[b.at]
    if newest_first then a, b = b, a end
    local one, other = a.place or a.rank, b.place or b.rank
    if one ~= other then return one < other end
    return a.member < b.member
  end
  table.sort(lanes, served and by_name or by_age)
end

-- Up to `room` jobs, turn by turn. `ways` are the functions of the queue: `free` (the lane of jobs without one), `open`
-- (a lane by its turn; nothing if it is closed or empty), `has_next`, `lets_in`, `arrived` (lanes created meanwhile),
-- `by_level`, `newest_first`.
local function choose_in_turn(queue, room, memory, ways)
  local chosen, ready, seen, again = {}, {}, 0, {}
  local served, stopped, reached = memory.served, memory.left or {}, {}
  if (stopped.level == '') == ways.by_level then stopped = {} end -- that was in another order

  local function make_ready(lane, level)
    ready[level] = ready[level] or {}
    table.insert(ready[level], lane)
  end

  -- Among these lanes; but one whose next job is less urgent waits for its own level.
  local function admit(lane, lanes, level)
    local own = ways.by_level and lane.heads[lane.at].level or ''
    if own > level then make_ready(lane, own) else table.insert(lanes, lane) end
  end

  local function welcome(lanes, level)
    for _, lane in ipairs(ways.arrived()) do admit(lane, lanes, level) end
  end

  local function serve(lanes, level, last)
    sort_by_turn(lanes, level, last, ways.newest_first)
    for _, lane in ipairs(lanes) do
      if #chosen >= room then return end
      if ways.lets_in(lane) then
        chosen[#chosen + 1] = lane.heads[lane.at]
        lane.at, again[#again + 1], served[level] = lane.at + 1, lane, name_in(level, lane)
      end
    end
  end

  -- The first turn of each lane; false if it had to stop. Where the lanes come in the order of their turns, no lane is
  -- opened that will not have one.
  local function serve_all(level, last)
    local lanes, opened = ready[level] or {}, 0
    local is_ahead = not stopped.level or level >= stopped.level
    local more = is_ahead and walk(queue, level, last, stopped, reached) or function() end
    ready[level] = nil
    repeat
      local turns = more()
      for _, turn in ipairs(turns or {}) do
        local lane = ways.open(turn)
        seen = seen + 1
        if lane then
          admit(lane, lanes, level)
          opened = opened + 1
        end
        if last and opened >= room - #chosen then
          serve(lanes, level, last)
          lanes, opened = {}, 0
          if #chosen >= room then return true end
        end
      end
      welcome(lanes, level)
      serve(lanes, level, last)
      lanes, opened = {}, 0
      if #chosen < room and seen >= MOST_LANES then return false end
    until not turns or #chosen >= room
    return true
  end

  -- The further turns of lanes that had their first.
  local function serve_again(level, last)
    while #again > 0 and #chosen < room do
      local lanes, those = {}, again
      again = {}
      for _, lane in ipairs(those) do
        if ways.has_next(lane) then admit(lane, lanes, level) end
      end
      welcome(lanes, level)
      serve(lanes, level, last)
    end
  end

  local function next_level(from)
    local least = first_level(queue, stopped.level and stopped.level > from and stopped.level or from)
    for level in pairs(ready) do
      if not least or level < least then least = level end
    end
    return least
  end

  local first = ways.free.heads[1]
  if first then make_ready(ways.free, ways.by_level and first.level or '') end
  local level = ways.by_level and next_level('000') or ''
  local is_all = true
  while level and is_all and #chosen < room do
    again = {}
    local last = served[level]
    is_all = serve_all(level, last)
    if is_all then serve_again(level, last) end
    level = ways.by_level and next_level(string.format('%03d', level + 1)) or nil
  end
  memory.left = not is_all and reached or nil
  return chosen, is_all
end

local LANES_BY_AGE = 100

-- The same with ageing, where a level is made of priority and age. No set has the lanes of one level, so they are read
-- before any has its turn: the next hundred, and if there are more, those with the most urgent jobs. Levels change, so
-- the lane served last is remembered for all of them together.
local function choose_by_age(queue, room, memory, ways)
  local chosen, ready, reached = {}, {}, {}
  local last, stopped = memory.served[AGED], memory.left or {}
  if stopped.level ~= '' then stopped = {} end -- that was in another order

  local function make_ready(lanes)
    for _, lane in ipairs(lanes) do
      local level = lane.heads[lane.at].level
      ready[level] = ready[level] or {}
      table.insert(ready[level], lane)
    end
  end

  local function first_ready()
    local least = math.huge
    for level in pairs(ready) do least = math.min(least, level) end
    return least
  end

  -- The lanes whose turn is next. Whether these were all, and how many of them may start something.
  local function look_around()
    local seen, opened = 0, 0
    for turns in walk(queue, '', memory.from, stopped, reached) do
      local lanes = {}
      for _, turn in ipairs(turns) do lanes[#lanes + 1] = ways.open(turn) end
      make_ready(lanes)
      make_ready(ways.arrived())
      seen, opened = seen + #turns, opened + #lanes
      if seen >= MOST_LANES or opened >= math.max(LANES_BY_AGE, room) then return false, opened end
    end
    return true, opened
  end

  -- Other lanes that are more urgent than all of these, as far as their oldest jobs tell.
  local function look_ahead()
    local level, members = first_ready(), {}
    for _, head in ipairs(merged(named('in:laned', queue), '', LANES_AT_ONCE, false, ways.ageing)) do
      if head.level < level then members[#members + 1] = head.member end
    end
    for _, record in ipairs(records_of(members, #members)) do
      local j = job_of(record)
      local known = j and call('HGET', P .. ':lanes:' .. queue, j.lane)
      local lane = known and ways.open(known .. j.lane)
      if lane then
        lane.is_ahead = true
        make_ready({lane})
      end
    end
    make_ready(ways.arrived())
  end

  -- One turn for each of the most urgent lanes.
  local function serve_round()
    local level, again = first_ready(), {}
    local lanes = ready[level]
    ready[level] = nil
    sort_by_turn(lanes, AGED, last)
    for _, lane in ipairs(lanes) do
      if #chosen >= room then return end
      if ways.lets_in(lane) then
        chosen[#chosen + 1] = lane.heads[lane.at]
        lane.at, again[#again + 1], memory.served[AGED] = lane.at + 1, lane, lane.name
        if not lane.is_ahead then memory.from = lane.turn end -- a lane out of turn does not move it
      end
    end
    for _, lane in ipairs(again) do
      if #chosen < room and ways.has_next(lane) then make_ready({lane}) end
    end
    make_ready(ways.arrived())
  end

  if ways.free.heads[1] then make_ready({ways.free}) end
  local is_all, opened = look_around()
  if not is_all or stopped.level then look_ahead() end
  while next(ready) and #chosen < room do serve_round() end
  local is_barren = opened == 0 or #chosen == 0
  memory.left = not is_all and is_barren and reached or nil -- to continue there, and to end after one round
  return chosen, is_all or #chosen >= room
end
