-- Delete a schedule and its occurrences.
-- ARGV: id, the version expected or nothing for any
-- Answers: 1, or 0 if it does not exist or is at another version

local id, expected = ARGV[1], tonumber(ARGV[2])

local known = expected and call('HGET', SCHEDULES, id)
if expected and not (known and schedule_version(known) == expected) then return 0 end
local existed = call('HDEL', SCHEDULES, id)
call('ZREM', SCHEDULES_DUE, id)
call('UNLINK', P .. ':occurrences:' .. id)
if existed == 1 then ring({schedules = true}) end
return existed
