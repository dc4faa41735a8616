-- Flows, newest first.
-- ARGV: limit, the id before which they are or nothing, count, ids or nothing for all
-- Answers: FlowRow, a list of states and how many jobs of the flow are in each, ...

local limit, before, count, asked = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), cmsgpack.unpack(ARGV[4])

local names = {}
if count > 0 then
  local seen = {}
  for _, id in ipairs(asked) do
    if not seen[id] and (before == '' or id < before) then names[#names + 1] = id end
    seen[id] = true
  end
  table.sort(names, function(a, b) return a > b end)
else
  names = call('ZREVRANGEBYLEX', P .. ':recent', before == '' and '+' or '(' .. before, '-', 'LIMIT', 0, limit)
end

local answer, told = {}, 0
for i, row in ipairs(ask_in_parts('HMGET', P .. ':flows', names, #names)) do
  if row and told < limit then
    local members, counts, states = call('ZRANGE', named('flow', names[i]), 0, -1), {}, {}
    for _, record in ipairs(records_of(members, #members)) do
      local is_whole, _, state = pcall(take, record, 1)
      if is_whole then counts[state] = (counts[state] or 0) + 1 end
    end
    for state, jobs in pairs(counts) do states[#states + 1], states[#states + 2] = state, jobs end
    answer[#answer + 1], answer[#answer + 2], told = row, states, told + 1
  end
end
return answer
