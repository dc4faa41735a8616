-- Claims under limits: rates, concurrency, lanes, and orders other than by priority. A queue without rules and lanes
-- never comes here: this part is only created in an exchange that has limits to check.

local MOST_MOVED, moved = 1000, 0 -- jobs that one claim puts into lanes; about 15 ms

-- Jobs of tasks with rules are moved into lanes with the task's limit when a claim meets them.

-- Remove a head of the queue from its set.
local function take_out(queue, head)
  if head.lane == '' then
    drop(place('pending', queue), head.member)
  else
    for_lane(queue, head.lane, drop, head.member)
  end
end

-- Move the heads without their task's limit into lanes that have it; whether there were any. `on_moved` is called with
-- every lane that got some. A job outside the set that its record names is damaged: removing it from that set would
-- leave it at the front.
local function move_ruled(queue, found, on_moved)
  local members, any = {}, false
  for i, head in ipairs(found) do members[i] = head.member end
  for i, record in ipairs(records_of(members, #members)) do
    local j = job_of(record)
    if j and (j.queue ~= queue or j.lane ~= found[i].lane) then
      take_out(queue, found[i])
      spoiled[#spoiled + 1], any = members[i], true
    elseif j and task_rules[j.task] and not is_behind(j.lane, 't:' .. j.task) then
      leave(members[i], j)
      j.lane = with_task(j.lane, j.task)
      enter(members[i], j)
      keep(members[i], written(j))
      has_lanes[j.queue], moved, any = true, moved + 1, true
      on_moved(j.lane)
    end
  end
  if any then flush() end
  return any
end

-- The heads that `look`, given a number, finds at the front of the queue, without jobs that have to move.
local function settled(queue, look, room, on_moved)
  local width = room
  while true do
    local found = look(width)
    if not any_task_rules or not move_ruled(queue, found, on_moved) then return cut(found, room) end
    width = math.max(room, 100) -- there are likely more
    if moved >= MOST_MOVED then
      come_back(now)
      return {}
    end
  end
end

-- Choice.

-- The order of a task's own jobs, whatever the order of their queue.
local function own_order_in(lane)
  local gates = gates_of(lane)
  local gate = gates[#gates] or ''
  local rules = gate:sub(1, 2) == 't:' and task_rules[gate:sub(3)]
  return rules and rules.strategy
end

-- The lanes of a queue for `choose_in_turn`. A lane has its name, its turn, its known heads, and the position of the
-- next one.
local function ways_of(queue, rules, order, room, free)
  local room_behind, lets_in = doorkeeper(queue, rules)
  local by_level = order == 'fresh_first' or order == 'priority'
  local visited, newcomers = {}, {}

  -- The front of a lane. If it has an order of its own, each of its jobs gets the urgency of the most urgent one left
  -- when it starts: the queue decides when the lane has its turn, the lane which of its jobs takes it.
  local function front_of(lane, width)
    local usual = front(queue, lane.name, order, rules.ageing, width)
    if not lane.own_order then return usual end
    local gone, first = {}, 1
    local own = front(queue, lane.name, lane.own_order, rules.ageing, width)
    for _, head in ipairs(own) do
      while gone[usual[first].member] do first = first + 1 end
      head.level, head.rank, head.place = usual[first].level, usual[first].rank, usual[first].place
      gone[head.member] = true
    end
    return own
  end

  local function look(lane, n)
    local function at_front(width) return front_of(lane, width) end
    lane.heads = settled(queue, at_front, n, function(name) newcomers[#newcomers + 1] = name end)
  end

  -- By priority one head is read, and the rest if needed. Other orders are computed again each time, and read at once.
  local function has_next(lane)
    if not lane.heads[lane.at] and not lane.is_known then
      look(lane, lane.at - 1 + math.min(room, room_behind(gates_of(lane.name))))
      lane.is_known = true
    end
    return lane.heads[lane.at] ~= nil
  end

  local function open(turn)
    local lane = {name = turn:sub(4), turn = turn, at = 1, heads = {}}
    if visited[lane.name] or room_behind(gates_of(lane.name)) < 1 then return end
    visited[lane.name] = true
    local own = own_order_in(lane.name)
    lane.own_order = own ~= order and own or nil
    if by_level and not lane.own_order then look(lane, 1) end
    return has_next(lane) and lane or nil
  end

  local function arrived()
    local lanes = {}
    while #newcomers > 0 do
      local name = table.remove(newcomers)
      if visited[name] then
        come_back(now) -- its turn may be over
      else
        lanes[#lanes + 1] = open(call('HGET', P .. ':lanes:' .. queue, name) .. name)
      end
    end
    return lanes
  end

  return {
    free = {name = '', turn = '', at = 1, heads = free, is_known = true}, open = open, has_next = has_next,
    arrived = arrived, lets_in = function(lane) return lets_in(gates_of(lane.name)) end, by_level = by_level,
    newest_first = order == 'lifo', ageing = rules.ageing,
  }
end

-- Jobs in a fair order among the lanes, within all limits.
local function choose(queue, rules, room)
  local order = own_order or rules.strategy or 'priority'
  local function at_front(width) return front(queue, '', order, rules.ageing, width) end
  local free = settled(queue, at_front, room, function() end)
  if not has_lanes[queue] then return free end
  local memory = memories[queue] and cjson.decode(memories[queue]) or {served = {}}
  local take_turns = order == 'priority' and rules.ageing and choose_by_age or choose_in_turn
  local chosen, is_all = take_turns(queue, room, memory, ways_of(queue, rules, order, room, free))
  if not is_all then come_back(now) end -- there are more lanes than one commit should read
  memories[queue] = cjson.encode(memory)
  remembered[queue] = memories[queue]
  return chosen
end

-- Count the started jobs for the rates.
local function account(queue, rules, begun)
  local through = {}
  for _, head in ipairs(begun) do
    for _, gate in ipairs(gates_of(head.lane)) do through[gate] = (through[gate] or 0) + 1 end
  end
  if rules.rate then spend(rules.rate, #begun, 'q', queue) end
  for gate, starts in pairs(through) do
    local kind, name = gate:sub(1, 1), gate:sub(3)
    local of_name = task_rules[name]
    if kind == 'r' and rules.key_rate then
      spend(rules.key_rate, starts, 'r', queue, name)
    elseif kind == 't' and of_name and of_name.rate then
      spend(of_name.rate, starts, 't', name)
    end
  end
end

-- Claim up to `room` jobs of the queue, within all limits; how many there were.
local function take_carefully(queue, room, lease_until, any_lapse)
  local rules = rules_of[queue] or {}
  local allowed = room_in_queue(queue, rules, room)
  if allowed < 1 then return 0 end
  local chosen = choose(queue, rules, allowed)
  if #chosen == 0 then return 0 end
  local members, begun = {}, {}
  for i, head in ipairs(chosen) do members[i] = head.member end
  local do_start = start(queue, members, #members, lease_until, any_lapse, function(i)
    begun[#begun + 1] = chosen[i]
    for_each_hold(chosen[i].lane, add, members[i], members[i])
  end)
  if not do_start then return 0 end
  for _, head in ipairs(chosen) do take_out(queue, head) end
  flush()
  account(queue, rules, begun)
  return #begun
end

-- When more may start, by the limits or else at `due`; the weights of queues; the lane positions to remember, which are
-- empty where there are no lanes any more. Names, each with its value.
local function told(due)
  local weights, news = {}, {}
  for queue, rules in pairs(rules_of) do
    if rules.weight then weights[#weights + 1], weights[#weights + 2] = queue, rules.weight end
  end
  for queue, memory in pairs(remembered) do news[#news + 1], news[#news + 2] = queue, memory end
  return due and math.min(due, next_start or due) or next_start, weights, news
end

learn_rules(unpack(cmsgpack.unpack(ARGV[13]), 1, 5))
math.randomseed(tonumber(salt:sub(1, 7), 16)) -- otherwise a script's random numbers are the same every time
limited_claim = {asks_care = asks_care, take_from = take_carefully, told = told}
