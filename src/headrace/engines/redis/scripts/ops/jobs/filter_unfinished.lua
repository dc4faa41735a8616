-- The positions of those of these ids whose jobs are not finished.
-- ARGV: count, ids

local count = tonumber(ARGV[1])
local known = read_in_parts('HMGET', IDS, cmsgpack.unpack(ARGV[2]), count)
for i = 1, count do known[i] = known[i] or '' end
local records = records_of(known, count)
local open = {}
for i = 1, count do
  local is_whole, _, state = pcall(take, records[i], 1)
  if is_whole and not FINAL[state] then open[#open + 1] = i end
end
return open
