-- The jobs of these ids, each with its history, its log, its stream and its steps.
-- ARGV: ids ...
-- Answers: row, history, log, stream, steps, ...

local answer = {}
for _, member in ipairs(read_in_parts('HMGET', IDS, ARGV, #ARGV)) do
  local row = member and rows_of({member}, 1, records_of({member}, 1))[1]
  if row then
    answer[#answer + 1] = row
    answer[#answer + 1] = call('LRANGE', P .. ':history:' .. member, 0, -1)
    answer[#answer + 1] = call('LRANGE', P .. ':logs:' .. member, 0, -1)
    answer[#answer + 1] = call('LRANGE', P .. ':stream:' .. member, 0, -1)
    answer[#answer + 1] = steps_of(member)
  end
end
return answer
