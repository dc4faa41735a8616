-- The entries of a list of the job's from one position to another, both included; negative ones count from the end.
-- ARGV: id, "history", "logs" or "stream", first, last

local member = call('HGET', IDS, ARGV[1])
return member and call('LRANGE', P .. ':' .. ARGV[2] .. ':' .. member, ARGV[3], ARGV[4]) or {}
