-- Stored steps of jobs, each under its kind, number and name. A step is the array of a Step.

-- Add the step as the `state_key`-th to the pending writes.
local function put_step(member, step, place)
  local _, kind, name, number = take(step, 3, 1)
  deferred[#deferred + 1] = function()
    call('HSET', steps_key(member), step_field(kind, number, name), string.format('%012.0f', place) .. step)
  end
end

-- Record the step in the history. The job does not move, and keeps its version.
local function record_step_history(member, j, at, kind, name)
  local n = #appends
  appends[n + 1] = P .. ':history:' .. member
  appends[n + 2] = '\157' .. pack(at, kind, j.state, j.state, j.version, j.attempt, j.worker, j.started_at, nil, name,
    nil, nil, nil)
end

-- All steps, in order.
local function steps_of(member)
  local steps = call('HVALS', steps_key(member))
  table.sort(steps)
  for i, step in ipairs(steps) do steps[i] = step:sub(13) end
  return steps
end
