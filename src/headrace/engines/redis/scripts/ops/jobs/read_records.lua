-- What decisions about jobs are made from.
-- ARGV: "ids" or "numbers", count, ids or numbers
-- Answers: the kind and the address of the store status, or nothing; the number of each job, and its record; without
-- missing jobs

local members, count = cmsgpack.unpack(ARGV[3]), tonumber(ARGV[2])
if ARGV[1] == 'ids' then members = read_in_parts('HMGET', IDS, members, count) end
local found, whole = {}, {}
for i = 1, count do members[i] = members[i] or '' end
for i, record in ipairs(records_of(members, count)) do
  if record then found[#found + 1], whole[#whole + 1] = members[i], record end
end
return {store_status() or {}, found, whole}
