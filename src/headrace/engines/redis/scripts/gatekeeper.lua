-- Claims that mind rules: rates, concurrency, lanes, and orders other than by priority. A queue without rules and
-- without lanes never comes here.

local LANES_AT_ONCE, MOST_LANES = 50, 1000
local MOST_MOVED, moved = 5000, 0 -- jobs that one claim puts into lanes

-- Jobs of tasks that have rules are put into lanes behind the task's gate when they are met.

local ESCAPED = {['"'] = '\\"', ['\\'] = '\\\\', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n', ['\r'] = '\\r',
  ['\t'] = '\\t'}

-- The lane with this task's gate besides its own. By its letter it is the last: gates are in order.
local function with_task(lane, task)
  local quoted = ('t:' .. task):gsub('[%z\1-\31"\\]', function(letter)
    return ESCAPED[letter] or string.format('\\u%04x', letter:byte())
  end)
  return (lane == '' and '[' or lane:sub(1, -2) .. ',') .. '"' .. quoted .. '"]'
end

local function is_behind(lane, gate)
  local gates = gates_of(lane)
  return gates[#gates] == gate
end

-- Move those of these heads that are not behind their task's gate to lanes where they are; whether there were any.
-- `told` is called with every lane that got some.
local function move_ruled(found, told)
  local members, any = {}, false
  for i, head in ipairs(found) do members[i] = head.member end
  for i, record in ipairs(records_of(members, #members)) do
    local j = job_of(record)
    found[i].task = j and j.task
    if j and task_rules[j.task] and not is_behind(j.lane, 't:' .. j.task) then
      leave(members[i], j)
      j.lane = with_task(j.lane, j.task)
      enter(members[i], j)
      keep(members[i], written(j))
      has_lanes[j.queue], moved, any = true, moved + 1, true
      told(j.lane)
    end
  end
  if any then flush() end
  return any
end

-- What `look`, given a number, finds at a front, without jobs that have to move.
local function settled(look, room, told)
  local width = room
  while true do
    local found = look(width)
    if not any_task_rules or not move_ruled(found, told) then return cut(found, room) end
    width = math.max(room, 100) -- there are likely more
    if moved >= MOST_MOVED then
      come_back(now)
      return {}
    end
  end
end

-- Which.

local function open_lanes(queue, names, room, room_behind, visited)
  local fronts = {}
  local function also(lane) names[#names + 1] = lane end
  local i = 1
  while names[i] do -- it may get longer on the way
    local lane = names[i]
    local least = visited[lane] and 0 or math.min(room, room_behind(gates_of(lane)))
    if least >= 1 then
      fronts[#fronts + 1] = settled(function(n) return heads(queue, lane, n) end, least, also)
    end
    visited[lane], i = true, i + 1
  end
  return fronts
end

-- Jobs in a fair order among the lanes, none through a gate that is shut.
local function choose(queue, rules, room)
  local order = own_order or rules.strategy or 'priority'
  local free = settled(function(n) return front(queue, order, rules.ageing, n) end, room, function() end)
  if not has_lanes[queue] then return free end
  local room_behind, lets_in = doorkeeper(queue, rules)
  local chosen, fronts, visited, seen = {}, {free}, {}, 0
  local after = cursors[queue] or ''
  local wrapped = after == ''
  while true do
    local names = lanes_after(queue, after, LANES_AT_ONCE)
    local at_the_end, last = #names < LANES_AT_ONCE, names[#names]
    seen = seen + #names
    for _, of_lane in ipairs(open_lanes(queue, names, room, room_behind, visited)) do
      fronts[#fronts + 1] = of_lane
    end
    for _, head in ipairs(in_turn(fronts, order == 'priority')) do
      if #chosen < room and lets_in(gates_of(head.lane)) then chosen[#chosen + 1] = head end
    end
    fronts, after = {}, at_the_end and '' or last
    cursors[queue] = after
    if #chosen >= room or (at_the_end and wrapped) then return chosen end
    if seen >= MOST_LANES then -- more than one commit should look at: come again for the rest
      come_back(now)
      return chosen
    end
    wrapped = wrapped or at_the_end
  end
end

-- Count what has started, for the queues that come after and for the rates.
local function account(queue, rules, begun)
  local through = {}
  for _, head in ipairs(begun) do
    if of_task and head.task then of_task[head.task] = (of_task[head.task] or 0) + 1 end
    for _, gate in ipairs(gates_of(head.lane)) do through[gate] = (through[gate] or 0) + 1 end
  end
  if rules.rate then spend('q:' .. queue, rules.rate, #begun) end
  for gate, starts in pairs(through) do
    local kind, name = gate:sub(1, 1), gate:sub(3)
    local of_name = task_rules[name]
    if kind == 'r' and rules.key_rate then
      spend('r:' .. queue .. ':' .. name, rules.key_rate, starts)
    elseif kind == 't' and of_name and of_name.rate then
      spend('t:' .. name, of_name.rate, starts)
    end
  end
end

-- Take up to `room` jobs of the queue, as far as all rules allow; how many there were.
local function take_carefully(queue, room, lease_until, any_lapse)
  local rules = rules_of[queue] or {}
  local allowed = room_in_queue(queue, rules, room)
  if allowed < 1 then return 0 end
  local chosen = choose(queue, rules, allowed)
  if #chosen == 0 then return 0 end
  local members, begun = {}, {}
  for i, head in ipairs(chosen) do
    members[i] = head.member
    if head.lane == '' then
      drop(place('pending', queue), head.member)
    else
      for_lane(queue, head.lane, drop, head.member)
    end
  end
  start(queue, members, #members, lease_until, any_lapse, function(i)
    begun[#begun + 1] = chosen[i]
    for_each_hold(chosen[i].lane, add, members[i], members[i])
  end)
  account(queue, rules, begun)
  return #begun
end

-- The weights of queues that have one, and the lanes after which to go on: names, each with its value.
local function told_of_rules()
  local weights, lanes = {}, {}
  for queue, rules in pairs(rules_of) do
    if rules.weight then weights[#weights + 1], weights[#weights + 2] = queue, rules.weight end
  end
  for queue, lane in pairs(cursors) do lanes[#lanes + 1], lanes[#lanes + 2] = queue, lane end
  return weights, lanes
end
