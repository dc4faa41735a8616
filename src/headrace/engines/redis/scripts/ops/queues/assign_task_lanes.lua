-- Move open jobs of a task into lanes with its limit. A few at a time.
-- ARGV: name, the number after which to begin, limit
-- Answers: the number of the last one read, or nothing if there are no more

local task, gate = ARGV[1], 't:' .. ARGV[1]
local members = call('ZRANGEBYSCORE', key_of('task', task), '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])

guard()
for i, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j and not FINAL[j.state] and j.state ~= 'running' and not has_task_limit(j.lane, gate) then
    leave(members[i], j)
    j.lane = with_task(j.lane, task)
    enter(members[i], j)
    put_record(members[i], encode_job(j))
  end
end
flush()
return members[#members] or ''
