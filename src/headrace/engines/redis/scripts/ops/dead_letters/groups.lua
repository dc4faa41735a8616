-- The number of dead letters of these statuses for each of these fingerprints, with the first and the last of them.
-- ARGV: statuses, fingerprints
-- Answers: count, first, last of each

local statuses, answer = cmsgpack.unpack(ARGV[1]), {}
for _, fingerprint in ipairs(cmsgpack.unpack(ARGV[2])) do
  local count, first, last = 0, '', ''
  for _, status in ipairs(statuses) do
    local key = dead_index_key(status, 'fingerprint', fingerprint)
    local size = call('ZCARD', key)
    if size > 0 then
      local lowest, highest = call('ZRANGE', key, 0, 0)[1], call('ZRANGE', key, -1, -1)[1]
      if count == 0 or lowest < first then first = lowest end
      if highest > last then last = highest end
      count = count + size
    end
  end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = count, first, last
end
return answer
