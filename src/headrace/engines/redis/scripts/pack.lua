-- The next jobs in the order of submission, each with its history and its log.
-- ARGV: after, limit
-- Answers: row, history, log, ...

local members = call('ZRANGEBYSCORE', ALL, '(' .. ARGV[1], '+inf', 'LIMIT', 0, ARGV[2])
local answer = {}
for _, member in ipairs(members) do
  local row = rows_of({member}, 1, records_of({member}, 1))[1]
  if row then
    answer[#answer + 1] = row
    answer[#answer + 1] = call('LRANGE', P .. ':h:' .. member, 0, -1)
    answer[#answer + 1] = call('LRANGE', P .. ':l:' .. member, 0, -1)
  end
end
return answer
