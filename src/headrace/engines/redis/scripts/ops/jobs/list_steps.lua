-- The stored steps of a job, oldest first.
-- ARGV: id

local member = call('HGET', IDS, ARGV[1])
return member and steps_of(member) or {}
