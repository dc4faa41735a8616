-- Stored steps of jobs, each under its kind, number and name. A step is the array of a Step.

-- Add the step as the `place`-th to the pending writes.
local function keep_step(member, step, place)
  local _, kind, name, number = take(step, 3, 1)
  deferred[#deferred + 1] = function()
    call('HSET', memory(member), name_of_step(kind, number, name), string.format('%012.0f', place) .. step)
  end
end

-- Record the step in the history. The job does not move, and keeps its version.
local function file_step(member, j, at, kind, name)
  local n = #filed
  filed[n + 1] = P .. ':history:' .. member
  filed[n + 2] = '\157' .. pack(at, kind, j.state, j.state, j.version, j.attempt, j.worker, j.started_at, nil, name,
    nil, nil, nil)
end

-- All steps, in order.
local function steps_of(member)
  local steps = call('HVALS', memory(member))
  table.sort(steps)
  for i, step in ipairs(steps) do steps[i] = step:sub(13) end
  return steps
end
