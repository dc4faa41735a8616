-- The next jobs in the order of submission, each with its history, its log, its stream and its steps.
-- ARGV: a filter that all jobs match, after, limit
-- Answers: row, history, log, stream, steps, ...

local members = candidates(tonumber(ARGV[2]), true, tonumber(ARGV[3]))
local answer = {}
for _, member in ipairs(members) do
  local row = rows_of({member}, 1, records_of({member}, 1))[1]
  if row then
    answer[#answer + 1] = row
    answer[#answer + 1] = call('LRANGE', P .. ':history:' .. member, 0, -1)
    answer[#answer + 1] = call('LRANGE', P .. ':logs:' .. member, 0, -1)
    answer[#answer + 1] = call('LRANGE', P .. ':stream:' .. member, 0, -1)
    answer[#answer + 1] = steps_of(member)
  end
end
return answer
