-- Store a schedule: over one at the expected version, or a new one.
-- ARGV: again, id, the version expected or nothing if it is new, due_at or nothing, ScheduleRow
-- Answers: 1, or 0 if it is at another version, does not exist, or exists already

local again, id, expected, due_at, row = ARGV[1] == '1', ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local known = call('HGET', SCHEDULES, id)
if again and known == row then return 1 end -- this very call stored it before; its answer was lost
if known and not expected or expected and not (known and schedule_version(known) == expected) then return 0 end
guard()
write_schedule(id, due_at, row)
ring({schedules = true})
return 1
