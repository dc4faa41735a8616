-- Stored steps of jobs, each under its kind, number and name. A step is the array of a Step.

-- Add the step as the `state_key`-th to the pending writes.
local function put_step(member, step, place)
  local _, $Step[..number] = take(step, #$Step[..number], #$Step:head)
  deferred[#deferred + 1] = function()
    call('HSET', steps_key(member), step_field(kind, number, name), string.format('%012.0f', place) .. step)
  end
end

-- All steps, in order.
local function steps_of(member)
  local steps = call('HVALS', steps_key(member))
  table.sort(steps)
  for i, step in ipairs(steps) do steps[i] = step:sub(13) end
  return steps
end
