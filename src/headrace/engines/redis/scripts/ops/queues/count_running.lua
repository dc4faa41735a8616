-- The number of jobs with a live lease.
-- ARGV: now
-- Answers: queue, task, lane, number, ...

local members = call('ZRANGEBYSCORE', LEASES, '(' .. ARGV[1], '+inf')
local counts, answer = {}, {}
for _, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j then
    local kind = pack(j.queue, j.task, j.lane)
    counts[kind] = (counts[kind] or 0) + 1
  end
end
for kind, jobs in pairs(counts) do
  local _, queue, task, lane = take(kind, 3)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = queue, task, lane, jobs
end
return answer
