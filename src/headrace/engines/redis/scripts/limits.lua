-- How much may start now, by the rules of queues and tasks. What is counted is what there is: no other script runs
-- meanwhile.

local CLOCKS_DIFFER = 10000000 -- microseconds, at most
local BUCKETS = P .. ':buckets'

-- What the worker has and prefers, and where it looked last: by queue, the lane after which each claim goes on.
local has, own_order, cursors = {}, nil, {}
local rules_of, has_lanes, task_rules, any_task_rules = {}, {}, {}, false
local next_start -- when a rule will allow more

local function come_back(moment)
  next_start = math.min(next_start or moment, moment)
end

local function learn_rules(capabilities, order, last_lanes)
  for _, name in ipairs(capabilities) do has[name] = true end
  for i = 1, #last_lanes, 2 do cursors[last_lanes[i]] = last_lanes[i + 1] end
  own_order = order or nil
  if not is_minded() then return end
  local names = call('SMEMBERS', RULED)
  for i, known in ipairs(ask_in_parts('HMGET', QUEUES, names, #names)) do
    local behind = known and known:find(' ', 1, true)
    if behind then rules_of[names[i]] = cjson.decode(known:sub(behind)) end
  end
  for _, name in ipairs(call('SMEMBERS', LANED)) do has_lanes[name] = true end
  local tasks = call('HGETALL', TASKS)
  for i = 1, #tasks, 2 do task_rules[tasks[i]], any_task_rules = cjson.decode(tasks[i + 1]), true end
end

local function asks_care(queue)
  if any_task_rules or has_lanes[queue] or (own_order and own_order ~= 'priority') then return true end
  for name in pairs(rules_of[queue] or {}) do
    if name ~= 'max_length' and name ~= 'weight' then return true end
  end
  return false
end

-- Rates. A bucket is kept as the time when it will be full again.

local buckets = {}
local function write_bucket(name, full_at)
  buckets[name] = full_at
  call('ZADD', BUCKETS, text(full_at), name)
end

-- How many may start by this rate; if none, when the next one may.
local function left(bucket, rate)
  local present = 1000 * now
  local furthest = present + rate.burst * rate.every
  local full_at = buckets[bucket] or tonumber(call('ZSCORE', BUCKETS, bucket) or 0)
  -- Spent by a slower rate, which is no more. Anything less is a worker whose clock is ahead: it gets nothing back.
  if full_at > furthest + CLOCKS_DIFFER then
    full_at = furthest
    write_bucket(bucket, full_at)
  end
  buckets[bucket] = full_at
  local starts = math.floor((furthest - math.max(full_at, present)) / rate.every)
  if starts < 1 then come_back(math.ceil((full_at - (rate.burst - 1) * rate.every) / 1000)) end
  return math.max(starts, 0)
end

local function spend(bucket, rate, starts)
  write_bucket(bucket, math.max(buckets[bucket] or 0, 1000 * now) + starts * rate.every)
  left(bucket, rate)
end

-- Concurrency. A lease that ran out does not count.

local function live(key)
  local members, count = call('ZRANGE', key, 0, -1), 0
  for _, ends in ipairs(ask_in_parts('ZMSCORE', LEASES, members, #members)) do
    if ends and tonumber(ends) > now then count = count + 1 end
  end
  return count
end

-- There is no set of what runs of a task, for which every job would have to pay: so all that run are looked at.
local of_task
local function running_of(task)
  if not of_task then
    of_task = {}
    local members = call('ZRANGEBYSCORE', LEASES, '(' .. text(now), '+inf')
    for _, record in ipairs(records_of(members, #members)) do
      local j = job_of(record)
      if j then of_task[j.task] = (of_task[j.task] or 0) + 1 end
    end
  end
  return of_task[task] or 0
end

local function room_in_task(task)
  local rules = task_rules[task] or {}
  local room = rules.paused and 0 or math.huge
  if rules.concurrency then room = math.min(room, rules.concurrency - running_of(task)) end
  if rules.rate and room > 0 then room = math.min(room, left('t:' .. task, rules.rate)) end
  return room
end

local function room_in_queue(queue, rules, room)
  if rules.concurrency then room = math.min(room, rules.concurrency - live(place('running', queue))) end
  if rules.rate then room = math.min(room, left('q:' .. queue, rules.rate)) end
  return room
end

-- Gates. What may still pass each of them in one claim from one queue.

local function doorkeeper(queue, rules)
  local rooms = {}
  local function look(gate)
    local kind, name = gate:sub(1, 1), gate:sub(3)
    if kind == 'n' then return has[name] and math.huge or 0 end
    if kind == 'c' then return (rules.key_concurrency or 1) - live(named('held', gate)) end
    if kind == 't' then return room_in_task(name) end
    return rules.key_rate and left('r:' .. queue .. ':' .. name, rules.key_rate) or math.huge
  end
  local function room_behind(gates)
    local least = math.huge
    for _, gate in ipairs(gates) do
      rooms[gate] = rooms[gate] or look(gate)
      least = math.min(least, rooms[gate])
      if least < 1 then break end
    end
    return least
  end
  local function lets_in(gates)
    if room_behind(gates) < 1 then return false end
    for _, gate in ipairs(gates) do rooms[gate] = rooms[gate] - 1 end
    return true
  end
  return room_behind, lets_in
end
