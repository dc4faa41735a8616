-- The newest entries of a list of the job's, oldest first.
-- ARGV: id, "history" or "logs", how many

local member = call('HGET', IDS, ARGV[1])
return member and call('LRANGE', P .. ':' .. ARGV[2] .. ':' .. member, -tonumber(ARGV[3]), -1) or {}
