-- Flows, newest first.
-- ARGV: limit, how many jobs to read, the id before which they are or nothing, count, ids or nothing for all
-- Answers: the id of the last one if there may be more, or nothing; id, FlowRow, a list of states and the number of the
-- flow's jobs in each, ...

local limit, scan_limit, before = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local count, requested = tonumber(ARGV[4]), cmsgpack.unpack(ARGV[5])

local names = {}
if count > 0 then
  local seen = {}
  for _, id in ipairs(requested) do
    if not seen[id] and (before == '' or id < before) then names[#names + 1] = id end
    seen[id] = true
  end
  table.sort(names, function(a, b) return a > b end)
else
  names = call('ZREVRANGEBYLEX', P .. ':flow_ids', before == '' and '+' or '(' .. before, '-', 'LIMIT', 0, limit)
end

local answer, returned, scanned = {false}, 0, 0
for i, row in ipairs(read_in_parts('HMGET', P .. ':flows', names, #names)) do
  if returned == limit then break end
  if scanned >= scan_limit then
    answer[1] = names[i - 1]
    break
  end
  if row then
    local members, counts, states = call('ZRANGE', key_of('flow', names[i]), 0, -1), {}, {}
    for _, record in ipairs(records_of(members, #members)) do
      local is_whole, _, state = pcall(take, record, 1)
      if is_whole and STATE_SETS[state] then counts[state] = (counts[state] or 0) + 1 end
    end
    scanned = scanned + #members
    for state, jobs in pairs(counts) do states[#states + 1], states[#states + 2] = state, jobs end
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3], returned = names[i], row, states, returned + 1
  end
end
return answer
