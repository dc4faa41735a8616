-- Forget a schedule and what became of its times.
-- ARGV: id
-- Answers: 1, or 0 if it was not there

local was_there = call('HDEL', SCHEDULES, ARGV[1])
call('ZREM', TIMES, ARGV[1])
call('UNLINK', P .. ':occurrences:' .. ARGV[1])
if was_there == 1 then ring({times = true}) end
return was_there
