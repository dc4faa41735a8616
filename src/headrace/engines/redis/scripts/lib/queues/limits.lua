-- How much may start now, by the rules of queues and tasks. The counts are exact: no other script runs meanwhile.

-- The worker's capabilities and preferences, and by queue the lane positions that it keeps.
local capability_set, own_order, known_positions, new_positions = {}, nil, {}, {}
local rules_of, has_lanes, task_rules, any_task_rules, any_task_limits = {}, {}, {}, false, false
local has_unknown = {} -- by queue, whether it has a task that the worker does not know
local next_start -- when a limit will allow more

local function claim_again_at(moment)
  next_start = math.min(next_start or moment, moment)
end

local function is_rate(value)
  return type(value) == 'table' and all_are(is_whole_number, value.every, value.burst) and value.every > 0
    and value.burst > 0
end

-- Stored rules; damaged ones count as none, so that no queue stops.
local function rules_in(stored)
  local rules = from_json(stored)
  local is_whole = none_or_all_are(is_rate, rules.rate, rules.key_rate) and none_or_all_are(is_text, rules.strategy)
    and none_or_all_are(is_whole_number, rules.weight, rules.ageing, rules.concurrency, rules.key_concurrency)
  return is_whole and rules or {}
end

local function read_rules(capabilities, order, positions, unknown, unknown_in)
  for _, name in ipairs(capabilities) do capability_set[name] = true end
  for i = 1, #positions, 2 do known_positions[positions[i]], new_positions[positions[i]] = positions[i + 1], '' end
  own_order = order or nil
  local names = call('SMEMBERS', QUEUES_WITH_RULES)
  for i, known in ipairs(read_in_parts('HMGET', QUEUES, names, #names)) do
    local behind = known and known:find(' ', 1, true)
    if behind then rules_of[names[i]] = rules_in(known:sub(behind)) end
  end
  for _, name in ipairs(call('SMEMBERS', QUEUES_WITH_LANES)) do has_lanes[name], new_positions[name] = true, nil end
  local tasks = call('HGETALL', TASKS)
  for i = 1, #tasks, 2 do
    local rules = rules_in(tasks[i + 1])
    task_rules[tasks[i]], any_task_rules = rules, true
    any_task_limits = any_task_limits or rules.paused or rules.rate or rules.concurrency
  end
  -- A task that the worker does not know counts as paused in this claim.
  for _, name in ipairs(unknown) do task_rules[name], any_task_rules = {paused = true}, true end
  for _, queue in ipairs(unknown_in) do has_unknown[queue] = true end
end

local function needs_limits(queue)
  if any_task_limits or has_lanes[queue] or has_unknown[queue] or (own_order and own_order ~= 'priority') then
    return true
  end
  for name in pairs(rules_of[queue] or {}) do
    if name ~= 'max_length' and name ~= 'weight' then return true end
  end
  return false
end

-- Rates.

local full_at = {} -- by the bucket's name

-- How many may start by this rate; if none, when the next one may.
local function rate_capacity(rate, ...)
  local bucket, present = bucket_of(rate, ...), 1000 * now
  full_at[bucket] = full_at[bucket] or tonumber(call('ZSCORE', RATE_BUCKETS, bucket) or 0)
  local latest = present + rate.burst * rate.every
  if full_at[bucket] > latest + 60000000 then -- no start led there: the clock was set back
    full_at[bucket] = latest
    call('ZADD', RATE_BUCKETS, text(latest), bucket)
  end
  local starts = math.floor((rate.burst * rate.every - math.max(full_at[bucket] - present, 0)) / rate.every)
  if starts < 1 then claim_again_at(math.ceil((full_at[bucket] - (rate.burst - 1) * rate.every) / 1000)) end
  return math.max(starts, 0)
end

local function spend(rate, starts, ...)
  local bucket = bucket_of(rate, ...)
  full_at[bucket] = math.max(full_at[bucket] or 0, 1000 * now) + starts * rate.every
  call('ZADD', RATE_BUCKETS, text(full_at[bucket]), bucket)
  rate_capacity(rate, ...)
end

-- Concurrency. An expired lease does not count.

-- How many jobs of this set run. The server iterates over the smaller one of the two sets.
local function count_live(key)
  local found, count = call('ZINTER', 2, key, LEASES, 'WEIGHTS', 0, 1, 'WITHSCORES'), 0
  for i = 2, #found, 2 do
    if tonumber(found[i]) > now then count = count + 1 end
  end
  return count
end

local function task_capacity(task)
  local rules = task_rules[task] or {}
  local capacity = rules.paused and 0 or math.huge
  if rules.concurrency then capacity = math.min(capacity, rules.concurrency - count_live(key_of('task', task))) end
  if rules.rate and capacity > 0 then capacity = math.min(capacity, rate_capacity(rules.rate, 'task', task)) end
  return capacity
end

local function queue_capacity(queue, rules, capacity)
  if rules.concurrency then
    capacity = math.min(capacity, rules.concurrency - count_live(state_key('running', queue)))
  end
  if rules.rate then capacity = math.min(capacity, rate_capacity(rules.rate, 'queue', queue)) end
  return capacity
end

-- Limits: how many jobs may still start under each in one claim from one queue.

local function limit_counter(queue, rules)
  local capacities = {}
  local function capacity_of(gate)
    local kind, name = gate:sub(1, 1), gate:sub(3)
    if kind == 'n' then return (capability_set[name] or capability_set['*']) and math.huge or 0 end
    if kind == 'c' then
      local of_group = tonumber(name:match('^([1-9]%d*)\t')) -- as in core/queues/limits.py
      return (of_group or rules.key_concurrency or 1) - count_live(key_of('held', gate))
    end
    if kind == 't' then return task_capacity(name) end
    return rules.key_rate and rate_capacity(rules.key_rate, 'key', queue, name) or math.huge
  end
  local function lane_capacity(gates)
    local least = math.huge
    for _, gate in ipairs(gates) do
      capacities[gate] = capacities[gate] or capacity_of(gate)
      least = math.min(least, capacities[gate])
      if least < 1 then break end
    end
    return least
  end
  local function try_acquire(gates)
    if lane_capacity(gates) < 1 then return false end
    for _, gate in ipairs(gates) do capacities[gate] = capacities[gate] - 1 end
    return true
  end
  return lane_capacity, try_acquire
end
