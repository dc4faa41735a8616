-- Documents of a kind by their keys.
-- ARGV: kind, "ZRANGEBYLEX" or "ZREVRANGEBYLEX", where to begin, where to end, how many
-- Answers: key, and version and value together, of each

local keys = call(ARGV[2], P .. ':document_keys:' .. ARGV[1], ARGV[3], ARGV[4], 'LIMIT', 0, tonumber(ARGV[5]))
local values, answer = read_in_parts('HMGET', P .. ':documents:' .. ARGV[1], keys, #keys), {}
for i = 1, #keys do
  answer[2 * i - 1], answer[2 * i] = keys[i], values[i]
end
return answer
