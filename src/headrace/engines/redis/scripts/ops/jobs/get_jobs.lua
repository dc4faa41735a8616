-- The jobs of these ids, as rows.
-- ARGV: count, ids and, for light rows, the longest value they may have

local count = tonumber(ARGV[1])
local known = read_in_parts('HMGET', IDS, cmsgpack.unpack(ARGV[2]), count)
local members = {}
for i = 1, count do
  if known[i] then members[#members + 1] = known[i] end
end
return rows_of(members, #members, records_of(members, #members), tonumber(ARGV[3]))
