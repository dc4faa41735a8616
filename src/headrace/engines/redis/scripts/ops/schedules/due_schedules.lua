-- The schedules whose time has come, the earliest first; none while a notice hangs at the door.
-- ARGV: now, limit
-- Answers: their ids, and what is kept of each

if call('EXISTS', P .. ':notice') == 1 then return {{}, {}} end
local ids = call('ZRANGEBYSCORE', TIMES, '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
return {ids, ask_in_parts('HMGET', SCHEDULES, ids, #ids)}
