-- Claims under limits: rates, concurrency, lanes, and orders other than by priority. A queue without rules and lanes
-- never comes here: this part is only created in an exchange that has limits to check.

local MAX_MOVED, moved = 1000, 0 -- jobs that one claim puts into lanes; about 15 ms

-- Jobs of tasks with rules are moved into lanes with the task's limit when a claim meets them.

-- Remove a head of the queue from its set.
local function remove_head(queue, head)
  if head.lane == '' then
    drop(state_key('pending', queue), head.member)
  else
    for_each_lane_set(queue, head.lane, drop, head.member)
  end
end

-- Move the heads without their task's limit into lanes that have it; whether there were any. `on_moved` is called with
-- every lane that got some. A job outside the set that its record names is damaged: removing it from that set would
-- leave it at the front.
local function move_to_task_lanes(queue, found, on_moved)
  local members, any = {}, false
  for i, head in ipairs(found) do members[i] = head.member end
  for i, record in ipairs(records_of(members, #members)) do
    local j = job_of(record)
    if j and (j.queue ~= queue or j.lane ~= found[i].lane) then
      remove_head(queue, found[i])
      damaged[#damaged + 1], any = members[i], true
    elseif j and task_rules[j.task] and not has_task_limit(j.lane, 't:' .. j.task) then
      leave(members[i], j)
      j.lane = with_task(j.lane, j.task)
      enter(members[i], j)
      put_record(members[i], encode_job(j))
      has_lanes[j.queue], moved, any = true, moved + 1, true
      on_moved(j.lane)
    end
  end
  if any then flush() end
  return any
end

-- The heads that `look`, given a number, finds at the front of the queue, without jobs that have to move.
local function heads_after_moves(queue, look, max_jobs, on_moved)
  local width = max_jobs
  while true do
    local found = look(width)
    if not any_task_rules or not move_to_task_lanes(queue, found, on_moved) then return truncate(found, max_jobs) end
    width = math.max(max_jobs, 100) -- there are likely more
    if moved >= MAX_MOVED then
      claim_again_at(now)
      return {}
    end
  end
end

-- Choice.

-- The order of a task's own jobs, whatever the order of their queue.
local function task_order_in(lane)
  local gates = gates_of(lane)
  local gate = gates[#gates] or ''
  local rules = gate:sub(1, 2) == 't:' and task_rules[gate:sub(3)]
  return rules and rules.strategy
end

-- The lanes of a queue for `choose_in_turn`. A lane has its name, its turn, its known heads, and the position of the
-- next one.
local function lanes_of_queue(queue, rules, order, max_jobs, unlaned)
  local lane_capacity, try_acquire = limit_counter(queue, rules)
  local by_level = order == 'fresh_first' or order == 'priority'
  local visited, created = {}, {}

  -- The front of a lane. In a lane with an order of its own, each job gets the urgency of the most urgent one left when
  -- it starts: the queue's order picks the lane, the lane's own order picks the job.
  local function front_of(lane, width)
    local usual = front(queue, lane.name, order, rules.ageing, width)
    if not lane.own_order then return usual end
    local taken, first = {}, 1
    local own = front(queue, lane.name, lane.own_order, rules.ageing, width)
    for _, head in ipairs(own) do
      while taken[usual[first].member] do first = first + 1 end
      head.level, head.rank, head.sort_value = usual[first].level, usual[first].rank, usual[first].sort_value
      taken[head.member] = true
    end
    return own
  end

  local function look(lane, n)
    local function at_front(width) return front_of(lane, width) end
    lane.heads = heads_after_moves(queue, at_front, n, function(name) created[#created + 1] = name end)
  end

  -- By priority one head is read, and the rest if needed. Other orders are computed again each time, and read at once.
  local function has_next(lane)
    if not lane.heads[lane.at] and not lane.is_known then
      look(lane, lane.at - 1 + math.min(max_jobs, lane_capacity(gates_of(lane.name))))
      lane.is_known = true
    end
    return lane.heads[lane.at] ~= nil
  end

  local function open(turn)
    local lane = {name = turn:sub(4), turn = turn, at = 1, heads = {}}
    if visited[lane.name] or lane_capacity(gates_of(lane.name)) < 1 then return end
    visited[lane.name] = true
    local own = task_order_in(lane.name)
    lane.own_order = own ~= order and own or nil
    if by_level and not lane.own_order then look(lane, 1) end
    return has_next(lane) and lane or nil
  end

  local function created_lanes()
    local lanes = {}
    while #created > 0 do
      local name = table.remove(created)
      if visited[name] then
        claim_again_at(now) -- its turn may be over
      else
        lanes[#lanes + 1] = open(call('HGET', P .. ':lanes:' .. queue, name) .. name)
      end
    end
    return lanes
  end

  return {
    unlaned = {name = '', turn = '', at = 1, heads = unlaned, is_known = true}, open = open, has_next = has_next,
    created_lanes = created_lanes,
    try_acquire = function(lane) return try_acquire(gates_of(lane.name), lane.heads[lane.at].member) end,
    weight_of = function(lane)
      local most = 1
      for _, gate in ipairs(rules.keys and gates_of(lane.name) or {}) do
        local own = gate:find('^[cr]') and rules.keys[gate:sub(3)]
        most = math.max(most, own and own.weight or 1)
      end
      return most
    end,
    by_level = by_level, newest_first = order == 'lifo', ageing = rules.ageing,
  }
end

-- Jobs in a fair order among the lanes, within all limits.
local function choose(queue, rules, max_jobs)
  local order = own_order or rules.strategy or 'priority'
  local function at_front(width) return front(queue, '', order, rules.ageing, width) end
  local unlaned = heads_after_moves(queue, at_front, max_jobs, function() end)
  if not has_lanes[queue] then
    local chosen, _, try_acquire = {}, limit_counter(queue, rules)
    for _, head in ipairs(unlaned) do
      if try_acquire({}, head.member) then chosen[#chosen + 1] = head end
    end
    return chosen
  end
  local positions = known_positions[queue] and cjson.decode(known_positions[queue]) or {served = {}}
  local take_turns = order == 'priority' and rules.ageing and choose_by_age or choose_in_turn
  local chosen, is_all = take_turns(queue, max_jobs, positions, lanes_of_queue(queue, rules, order, max_jobs, unlaned))
  if not is_all then claim_again_at(now) end -- there are more lanes than one commit should read
  known_positions[queue] = cjson.encode(positions)
  new_positions[queue] = known_positions[queue]
  return chosen
end

-- Count the started jobs for the rates.
local function count_for_rates(queue, rules, started)
  local heads_by_gate = {}
  for _, head in ipairs(started) do
    for _, gate in ipairs(gates_of(head.lane)) do
      heads_by_gate[gate] = heads_by_gate[gate] or {}
      table.insert(heads_by_gate[gate], head)
    end
  end
  local function count(found, rate, ...)
    local function units_of_all()
      local units = 0
      for _, head in ipairs(found) do units = units + units_of(head.member) end
      return units
    end
    if rate then spend(rate, #found, units_of_all, ...) end
  end
  count(started, rules.rate, 'queue', queue)
  for gate, found in pairs(heads_by_gate) do count(found, rate_of(gate, queue, rules)) end
end

-- Claim up to `max_jobs` jobs of the queue, within all limits; how many there were.
local function claim_limited(queue, max_jobs, lease_until, any_expiry)
  local rules = rules_of[queue] or {}
  local allowed = queue_capacity(queue, rules, max_jobs)
  if allowed < 1 then return 0 end
  local chosen = choose(queue, rules, allowed)
  if #chosen == 0 then return 0 end
  local members, started = {}, {}
  for i, head in ipairs(chosen) do members[i] = head.member end
  local do_start = start(queue, members, #members, lease_until, any_expiry, function(i)
    started[#started + 1] = chosen[i]
    for_each_concurrency_set(chosen[i].lane, add, members[i], members[i])
  end)
  if not do_start then return 0 end
  for _, head in ipairs(chosen) do remove_head(queue, head) end
  flush()
  count_for_rates(queue, rules, started)
  return #started
end

-- When more may start, by the limits or else at `due`; the weights of queues; the lane positions for the worker to
-- keep, empty for queues without lanes. Names, each with its value.
local function claim_info(due)
  local weights, positions = {}, {}
  for queue, rules in pairs(rules_of) do
    if rules.weight then weights[#weights + 1], weights[#weights + 2] = queue, rules.weight end
  end
  for queue, position in pairs(new_positions) do
    positions[#positions + 1], positions[#positions + 2] = queue, position
  end
  return due and math.min(due, next_start or due) or next_start, weights, positions
end

read_rules(unpack(cmsgpack.unpack(ARGV[13]), 1, 5))
math.randomseed(tonumber(salt:sub(1, 7), 16)) -- otherwise a script's random numbers are the same every time
limited_claim = {needs_limits = needs_limits, claim_from = claim_limited, claim_info = claim_info}
