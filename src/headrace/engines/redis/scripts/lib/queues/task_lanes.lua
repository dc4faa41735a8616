-- Jobs of tasks with an order of their own wait in lanes with their task's limit, where that order applies.

local ESCAPED = {['"'] = '\\"', ['\\'] = '\\\\', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n', ['\r'] = '\\r',
  ['\t'] = '\\t'}

-- The lane with this task's limit added. By its letter it is the last: limits are sorted.
local function with_task(lane, task)
  local quoted = ('t:' .. task):gsub('[%z\1-\31"\\]', function(letter)
    return ESCAPED[letter] or string.format('\\u%04x', letter:byte())
  end)
  return (lane == '' and '[' or lane:sub(1, -2) .. ',') .. '"' .. quoted .. '"]'
end

local function has_task_limit(lane, gate)
  local gates = gates_of(lane)
  return gates[#gates] == gate
end

local task_orders -- task -> its order

local function order_of_task(task)
  if not task_orders then
    task_orders = {}
    local known = call('HGETALL', TASKS)
    for i = 1, #known, 2 do task_orders[known[i]] = from_json(known[i + 1]).strategy end
  end
  return task_orders[task]
end

-- The lane of a new job with this one.
local function lane_for(task, lane)
  return order_of_task(task) and not has_task_limit(lane, 't:' .. task) and with_task(lane, task) or lane
end
