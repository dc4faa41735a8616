-- Tasks that are not familiar to the worker. Only created in an exchange that has met one.

local AHEAD = 500

-- Add the queue with each such task of these jobs and of those at its front to `strange`; damaged jobs to `spoiled`.
local function tell(queue, members, strange, spoiled)
  local told = {}
  local function look(found, is_chosen)
    for i, record in ipairs(records_of(found, #found)) do
      local j = job_of(record)
      if j and not told[j.task] and not ARGV[20]:find('\n' .. j.task .. '\n', 1, true) then
        told[j.task], strange[#strange + 1], strange[#strange + 2] = true, queue, j.task
      elseif record and not j and is_chosen then
        spoiled[#spoiled + 1] = found[i]
      end
    end
  end
  look(members, true)
  look(call('ZRANGE', named('in:pending', queue), '0', text(AHEAD - 1)), false)
end

return {tell = tell}
