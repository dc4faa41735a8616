-- The number of jobs with a live lease, and when the full bursts of rates will be available again.
-- ARGV: now, then of each window of a rate the microseconds between two starts, the burst, its period, whether it counts
-- units, and the number of names of its owner with these names: its kind and what it is the rate of
-- Answers: queue, task, lane, number, ...; the time in microseconds, or false if the rate has no bucket, ...

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
local i = 2
while i <= #ARGV do
  local window, last = {every = tonumber(ARGV[i]), burst = tonumber(ARGV[i + 1])}, i + 4 + tonumber(ARGV[i + 4])
  window.period, window.units = ARGV[i + 2] ~= '0' and tonumber(ARGV[i + 2]) or nil, ARGV[i + 3] == '1'
  local moment = call('ZSCORE', RATE_BUCKETS, bucket_of(window, unpack(ARGV, i + 5, last)))
  full_at[#full_at + 1] = moment and text(tonumber(moment))
  i = last + 1
end
return {running, full_at}
