-- Lanes take turns: of lanes whose next job is equally urgent, each gets one turn before any gets two, and the next
-- claim continues after the lane that was served last. The worker keeps the positions: which lane that was, for each
-- level; and where this claim stopped, if there were more lanes than one claim should read.
--
-- By orders other than priority all jobs are of one level, ''. The jobs without a lane are a lane of their own, ''.

local LANE_BATCH_SIZE, MAX_LANES = 50, 1000

-- An iterator over the lanes of a level, each with its level in front. It begins after the lane served last, or where
-- an earlier call stopped; its position is stored in `reached`.
local function iterate_lanes(queue, level, served, stopped, reached)
  local key, low, high = P .. ':turns:' .. queue, '-', '+'
  if level ~= '' then low, high = '[' .. level, '(' .. string.format('%03d', level + 1) end
  local ranges, range_number = served and {{'(' .. served, high}, {low, '[' .. served}} or {{low, high}}, 1
  if stopped.level == level then
    range_number = math.min(stopped.range_number, #ranges)
    ranges[range_number][1] = '(' .. stopped.after
  end
  return function()
    while ranges[range_number] do
      local low_end, high_end = ranges[range_number][1], ranges[range_number][2]
      local found = call('ZRANGEBYLEX', key, low_end, high_end, 'LIMIT', 0, LANE_BATCH_SIZE)
      local last = found[#found]
      if last then
        reached.level, reached.range_number, reached.after = level, range_number, last
        ranges[range_number][1] = '(' .. last
      end
      if #found < LANE_BATCH_SIZE then range_number = range_number + 1 end
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

local ALL_LEVELS = 'aged' -- in the positions: stands for every level

-- The key of a lane's turn within a level, as in the positions.
local function turn_key(level, lane)
  if level == ALL_LEVELS then return lane.name end
  return level == '' and lane.turn or level .. lane.name
end

-- Sort lanes by their turns: by name from the one after the last served; if none was, by their next jobs.
local function sort_by_turn(lanes, level, served, newest_first)
  local function by_name(a, b)
    local one, other = turn_key(level, a), turn_key(level, b)
    if (one <= served) ~= (other <= served) then return other <= served end
    return one < other
  end
  local function by_age(a, b)
    a, b = a.heads[a.at], b.heads[b.at]
    if newest_first then a, b = b, a end
    local one, other = a.sort_value or a.rank, b.sort_value or b.rank
    if one ~= other then return one < other end
    return a.member < b.member
  end
  table.sort(lanes, served and by_name or by_age)
end

-- Start jobs of a lane until its turn is over: as many as it has weight, or nothing more may start. Whether any did.
-- A turn that `max_jobs` breaks off goes on with the next claim, unless `served` is called, with which it is over.
local function take_turn(lane, level, chosen, max_jobs, positions, queue_lanes, served)
  local begun, name, of_head = positions.begun, turn_key(level, lane), lane.heads[lane.at].level
  local before = begun and begun[1] == level and begun[2] == name and begun[3] or 0
  local starts, weight = before, queue_lanes.weight_of(lane)
  while #chosen < max_jobs and queue_lanes.has_next(lane) and lane.heads[lane.at].level == of_head
    and queue_lanes.try_acquire(lane) do
    chosen[#chosen + 1], lane.at, starts = lane.heads[lane.at], lane.at + 1, starts + 1
    if starts >= weight then break end
  end
  if starts == before then return false end
  local is_broken_off = starts < weight and #chosen >= max_jobs
  positions.begun = is_broken_off and {level, name, starts} or nil
  if not is_broken_off then served(name) end
  return true
end

-- Up to `max_jobs` jobs, turn by turn. `queue_lanes` has the functions of the queue: `unlaned` (the lane of jobs
-- without one), `open` (a lane by its turn; nothing if it is closed or empty), `has_next`, `try_acquire`,
-- `weight_of`, `created_lanes` (lanes created meanwhile), `by_level`, `newest_first`.
local function choose_in_turn(queue, max_jobs, positions, queue_lanes)
  local chosen, ready, seen, again = {}, {}, 0, {}
  local served, stopped, reached = positions.served, positions.left or {}, {}
  if (stopped.level == '') == queue_lanes.by_level then stopped = {} end -- they belong to another order

  local function make_ready(lane, level)
    ready[level] = ready[level] or {}
    table.insert(ready[level], lane)
  end

  -- Among these lanes; but one whose next job is less urgent waits for its own level.
  local function add_lane(lane, lanes, level)
    local own = queue_lanes.by_level and lane.heads[lane.at].level or ''
    if own > level then make_ready(lane, own) else table.insert(lanes, lane) end
  end

  local function add_created_lanes(lanes, level)
    for _, lane in ipairs(queue_lanes.created_lanes()) do add_lane(lane, lanes, level) end
  end

  local function serve(lanes, level, last)
    sort_by_turn(lanes, level, last, queue_lanes.newest_first)
    for _, lane in ipairs(lanes) do
      if #chosen >= max_jobs then return end
      local function is_over(name) served[level] = name end
      if take_turn(lane, level, chosen, max_jobs, positions, queue_lanes, is_over) then again[#again + 1] = lane end
    end
  end

  -- The first turn of each lane; false if it had to stop. Where the lanes come in the order of their turns, no lane is
  -- opened that will not have one.
  local function serve_all(level, last)
    local lanes, opened = ready[level] or {}, 0
    local is_ahead = not stopped.level or level >= stopped.level
    local more = is_ahead and iterate_lanes(queue, level, last, stopped, reached) or function() end
    ready[level] = nil
    repeat
      local turns = more()
      for _, turn in ipairs(turns or {}) do
        local lane = queue_lanes.open(turn)
        seen = seen + 1
        if lane then
          add_lane(lane, lanes, level)
          opened = opened + 1
        end
        if last and opened >= max_jobs - #chosen then
          serve(lanes, level, last)
          lanes, opened = {}, 0
          if #chosen >= max_jobs then return true end
        end
      end
      add_created_lanes(lanes, level)
      serve(lanes, level, last)
      lanes, opened = {}, 0
      if #chosen < max_jobs and seen >= MAX_LANES then return false end
    until not turns or #chosen >= max_jobs
    return true
  end

  -- The further turns of lanes that had their first.
  local function serve_again(level, last)
    while #again > 0 and #chosen < max_jobs do
      local lanes, those = {}, again
      again = {}
      for _, lane in ipairs(those) do
        if queue_lanes.has_next(lane) then add_lane(lane, lanes, level) end
      end
      add_created_lanes(lanes, level)
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

  local first = queue_lanes.unlaned.heads[1]
  if first then make_ready(queue_lanes.unlaned, queue_lanes.by_level and first.level or '') end
  local level = queue_lanes.by_level and next_level('000') or ''
  local is_all = true
  while level and is_all and #chosen < max_jobs do
    again = {}
    local last = served[level]
    is_all = serve_all(level, last)
    if is_all then serve_again(level, last) end
    level = queue_lanes.by_level and next_level(string.format('%03d', level + 1)) or nil
  end
  positions.left = not is_all and reached or nil
  return chosen, is_all
end

local LANES_BY_AGE = 100

-- The same with ageing, where a level is made of priority and age. No set has the lanes of one level, so they are read
-- before any has its turn: the next hundred, and if there are more, those with the most urgent jobs. Levels change, so
-- the lane served last is remembered for all of them together.
local function choose_by_age(queue, max_jobs, positions, queue_lanes)
  local chosen, ready, reached = {}, {}, {}
  local last, stopped = positions.served[ALL_LEVELS], positions.left or {}
  if stopped.level ~= '' then stopped = {} end -- they belong to another order

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

  -- Reads the lanes whose turn is next; whether these were all, and how many of them may start a job.
  local function read_next_lanes()
    local seen, opened = 0, 0
    for turns in iterate_lanes(queue, '', positions.from, stopped, reached) do
      local lanes = {}
      for _, turn in ipairs(turns) do lanes[#lanes + 1] = queue_lanes.open(turn) end
      make_ready(lanes)
      make_ready(queue_lanes.created_lanes())
      seen, opened = seen + #turns, opened + #lanes
      if seen >= MAX_LANES or opened >= math.max(LANES_BY_AGE, max_jobs) then return false, opened end
    end
    return true, opened
  end

  -- Other lanes whose oldest jobs are more urgent than all of these.
  local function read_urgent_lanes()
    local level, members = first_ready(), {}
    for _, head in ipairs(merge_levels(key_of('in:laned', queue), '', LANE_BATCH_SIZE, false, queue_lanes.ageing)) do
      if head.level < level then members[#members + 1] = head.member end
    end
    for _, record in ipairs(records_of(members, #members)) do
      local j = job_of(record)
      local known = j and call('HGET', P .. ':lanes:' .. queue, j.lane)
      local lane = known and queue_lanes.open(known .. j.lane)
      if lane then
        lane.is_ahead = true
        make_ready({lane})
      end
    end
    make_ready(queue_lanes.created_lanes())
  end

  -- One turn for each of the most urgent lanes.
  local function serve_round()
    local level, again = first_ready(), {}
    local lanes = ready[level]
    ready[level] = nil
    sort_by_turn(lanes, ALL_LEVELS, last)
    for _, lane in ipairs(lanes) do
      if #chosen >= max_jobs then return end
      local function is_over(name)
        positions.served[ALL_LEVELS] = name
        if not lane.is_ahead then positions.from = lane.turn end -- a lane out of turn does not move it
      end
      if take_turn(lane, ALL_LEVELS, chosen, max_jobs, positions, queue_lanes, is_over) then again[#again + 1] = lane end
    end
    for _, lane in ipairs(again) do
      if #chosen < max_jobs and queue_lanes.has_next(lane) then make_ready({lane}) end
    end
    make_ready(queue_lanes.created_lanes())
  end

  if queue_lanes.unlaned.heads[1] then make_ready({queue_lanes.unlaned}) end
  local is_all, opened = read_next_lanes()
  if not is_all or stopped.level then read_urgent_lanes() end
  while next(ready) and #chosen < max_jobs do serve_round() end
  local is_fruitless = opened == 0 or #chosen == 0
  positions.left = not is_all and is_fruitless and reached or nil -- the next claim continues there
  return chosen, is_all or #chosen >= max_jobs
end
