-- The number of dead letters for each reason and status that has any.
-- ARGV: statuses
-- Answers: reason, status, count, requeues, first, last of each

local statuses, answer = cmsgpack.unpack(ARGV[1]), {}
for _, reason in ipairs(call('SMEMBERS', P .. ':dead_reasons')) do
  for _, status in ipairs(statuses) do
    local key = dead_index_key(status, 'reason', reason)
    local size = call('ZCARD', key)
    if size > 0 then
      local requeues = tonumber(call('HGET', P .. ':dead_requeues', status .. ':' .. reason) or 0)
      local n = #answer
      answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = reason, status, size, requeues
      answer[n + 5], answer[n + 6] = call('ZRANGE', key, 0, 0)[1], call('ZRANGE', key, -1, -1)[1]
    end
  end
end
return answer
