-- The due schedules, the earliest first; none while a store status is set.
-- ARGV: now, limit
-- Answers: their ids, and the stored record of each

if call('EXISTS', P .. ':status') == 1 then return {{}, {}} end
local ids = call('ZRANGEBYSCORE', SCHEDULES_DUE, '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
return {ids, read_in_parts('HMGET', SCHEDULES, ids, #ids)}
