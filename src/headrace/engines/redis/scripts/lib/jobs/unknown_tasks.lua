-- Tasks that the worker does not know. Only created in an exchange that found one.

local LOOK_AHEAD = 500

-- Add the queue with each such task of these jobs, and of those at its front, to `unknown_pairs`; and damaged jobs to
-- `damaged`.
local function collect(queue, members, unknown_pairs, damaged)
  local seen = {}
  local function check(found, is_chosen)
    for i, record in ipairs(records_of(found, #found)) do
      local j = job_of(record)
      if j and not seen[j.task] and not ARGV[20]:find('\n' .. j.task .. '\n', 1, true) then
        seen[j.task], unknown_pairs[#unknown_pairs + 1], unknown_pairs[#unknown_pairs + 2] = true, queue, j.task
      elseif record and not j and is_chosen then
        damaged[#damaged + 1] = found[i]
      end
    end
  end
  check(members, true)
  check(call('ZRANGE', key_of('in:pending', queue), '0', text(LOOK_AHEAD - 1)), false)
end

return {collect = collect}
