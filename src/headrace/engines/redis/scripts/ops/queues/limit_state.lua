-- The number of jobs with a live lease, and when the full bursts of queues will be available again.
-- ARGV: now, then queue, and of its rate the microseconds between two starts and the burst, ...
-- Answers: queue, task, lane, number, ...; queue, the time in microseconds, ... without queues that have no bucket

local members = call('ZRANGEBYSCORE', LEASES, '(' .. ARGV[1], '+inf')
local counts, running, full_at = {}, {}, {}
for _, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j then
    local kind = pack(j.queue, j.task, j.lane)
    counts[kind] = (counts[kind] or 0) + 1
  end
end
for kind, jobs in pairs(counts) do
  local _, queue, task, lane = take(kind, 3)
  local n = #running
  running[n + 1], running[n + 2], running[n + 3], running[n + 4] = queue, task, lane, jobs
end
for i = 2, #ARGV, 3 do
  local rate = {every = tonumber(ARGV[i + 1]), burst = tonumber(ARGV[i + 2])}
  local moment = call('ZSCORE', RATE_BUCKETS, bucket_of(rate, 'q', ARGV[i]))
  if moment then full_at[#full_at + 1], full_at[#full_at + 2] = ARGV[i], text(tonumber(moment)) end
end
return {running, full_at}
