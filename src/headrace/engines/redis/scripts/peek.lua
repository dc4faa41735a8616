-- The pending jobs of a queue in the order they will be claimed, as rows.
-- ARGV: queue, limit

local members = call('ZRANGE', place('pending', ARGV[1]), 0, tonumber(ARGV[2]) - 1)
return rows_of(members, #members, records_of(members, #members))
