-- Move open jobs of a task into lanes with its limit. A few at a time.
-- ARGV: name, the number after which to begin, limit
-- Answers: the number of the last one read, or nothing if there are no more

local task, gate = ARGV[1], 't:' .. ARGV[1]
local members = call('ZRANGEBYSCORE', named('task', task), '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])

guard()
for i, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j and not FINAL[j.state] and j.state ~= 'running' and not is_behind(j.lane, gate) then
    leave(members[i], j)
    j.lane = with_task(j.lane, task)
    enter(members[i], j)
    keep(members[i], written(j))
  end
end
flush()
return members[#members] or ''
