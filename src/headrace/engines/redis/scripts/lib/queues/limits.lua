-- How much may start now, by the rules of queues and tasks. The counts are exact: no other script runs meanwhile.

-- The worker's capabilities and preferences, and by queue the lane positions that it keeps.
local capability_set, own_order, known_positions, new_positions = {}, nil, {}, {}
local rules_of, has_lanes, task_rules, any_task_rules, any_task_limits = {}, {}, {}, false, false
local has_unknown = {} -- by queue, whether it has a task that the worker does not know
local next_start -- when a limit will allow more

local function claim_again_at(moment)
  next_start = math.min(next_start or moment, moment)
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

-- By the bucket's name: when it is full; the same with the units of chosen jobs; whether a job waits for its units.
-- By the number of a job: its units.
local full_at, units_in = {}, {planned = {}, closed = {}, jobs = {}}

local function stored_full_at(window, bucket)
  if not full_at[bucket] then
    full_at[bucket] = tonumber(call('ZSCORE', RATE_BUCKETS, bucket) or 0)
    local _, base = read_window(window, 0, 1000 * now, 1)
    local latest = base + window.burst * window.every + (window.period or 0) -- a claim may begin before and run after
    if full_at[bucket] > latest + (window.units and 316224000000000 or 60000000) then -- the clock was set back
      full_at[bucket] = latest
      call('ZADD', RATE_BUCKETS, text(latest), bucket)
    end
  end
  return full_at[bucket]
end

-- How many may start by this rate; if none, when the next one may.
local function rate_capacity(rate, ...)
  local least, opening = math.huge, nil
  for _, window in ipairs(windows_of(rate)) do
    local starts, _, opens_at = read_window(window, stored_full_at(window, bucket_of(window, ...)), 1000 * now, 1)
    if starts < 1 then opening = math.max(opening or 0, opens_at) end
    least = math.min(least, starts)
  end
  if opening then claim_again_at(opening) end
  return least
end

-- Take tokens for jobs that start: as many as they are, or as they have units.
local function spend(rate, starts, units_of_all, ...)
  for _, window in ipairs(windows_of(rate)) do
    local bucket = bucket_of(window, ...)
    local _, base = read_window(window, stored_full_at(window, bucket), 1000 * now, 1)
    full_at[bucket] = after_starts(window, base, window.units and units_of_all() or starts, 1000 * now)
    call('ZADD', RATE_BUCKETS, text(full_at[bucket]), bucket)
  end
  rate_capacity(rate, ...)
end

-- The units of a job, which is read once.
local function units_of(member)
  units_in.jobs[member] = units_in.jobs[member] or cost_of(member)
  return units_in.jobs[member]
end

-- The rate of a limit of a lane with the names of its bucket; nothing if it has none.
local function rate_of(gate, queue, rules)
  local kind, name = gate:sub(1, 1), gate:sub(3)
  local of_key = kind == 'r' and key_rules(rules, name).rate
  if of_key then return of_key, 'key', queue, name end
  if kind == 't' and task_rules[name] and task_rules[name].rate then return task_rules[name].rate, 'task', name end
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
      return (of_group or key_rules(rules, name).concurrency or 1) - count_live(key_of('held', gate))
    end
    if kind == 't' then return task_capacity(name) end
    return rate_of(gate, queue, rules) and rate_capacity(rate_of(gate, queue, rules)) or math.huge
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
  -- Whether every window that counts units has room for those of this job; if so, they are reserved. If a window has
  -- not, no other job of this claim takes what is left: the job would wait for ever.
  local function reserve_units(gates, member)
    local buckets, is_open = {}, true
    local function look(rate, ...)
      for _, window in ipairs(rate and windows_of(rate) or {}) do
        if window.units then
          local bucket, units = bucket_of(window, ...), units_of(member)
          local moment = units_in.planned[bucket] or stored_full_at(window, bucket)
          local room, base, opens_at = read_window(window, moment, 1000 * now, units)
          if room < math.min(units, window.burst) then
            claim_again_at(opens_at)
            units_in.closed[bucket] = true
          end
          is_open = is_open and not units_in.closed[bucket]
          buckets[bucket] = base + units * window.every
        end
      end
    end
    look(rules.rate, 'queue', queue)
    for _, gate in ipairs(gates) do look(rate_of(gate, queue, rules)) end
    for bucket, moment in pairs(is_open and buckets or {}) do units_in.planned[bucket] = moment end
    return is_open
  end

  local function try_acquire(gates, member)
    if lane_capacity(gates) < 1 or not reserve_units(gates, member) then return false end
    for _, gate in ipairs(gates) do capacities[gate] = capacities[gate] - 1 end
    return true
  end
  return lane_capacity, try_acquire
end
