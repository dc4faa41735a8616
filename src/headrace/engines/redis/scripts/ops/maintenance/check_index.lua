-- Entries of a sorted set of numbers whose job does not exist.
-- ARGV: the set, the position of the first entry, how many to read, 1 if they are to be removed
-- Answers: how many were read, how many have no job

local key, first, scan_limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local members = call('ZRANGE', key, first, first + scan_limit - 1)
local lost = {}
for _, member in ipairs(members) do -- one by one: records may be large, and only their existence matters
  if call('HEXISTS', JOBS, member) == 0 then lost[#lost + 1] = member end
end
if ARGV[4] == '1' then write_in_parts('ZREM', key, lost, #lost) end
return {#members, #lost}
