-- When the full bursts of queues will be available again.
-- ARGV: queue, and of its rate the microseconds between two starts and the burst, ...
-- Answers: queue, the time in microseconds, ... without queues that have no bucket

local answer = {}
for i = 1, #ARGV, 3 do
  local rate = {every = tonumber(ARGV[i + 1]), burst = tonumber(ARGV[i + 2])}
  local moment = call('ZSCORE', RATE_BUCKETS, bucket_of(rate, 'q', ARGV[i]))
  if moment then answer[#answer + 1], answer[#answer + 2] = ARGV[i], text(tonumber(moment)) end
end
return answer
