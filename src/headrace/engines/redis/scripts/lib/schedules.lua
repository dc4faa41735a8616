-- Schedules: the stored form of each, and whether it is still at an expected version.

local SCHEDULES, SCHEDULES_DUE = P .. ':schedules', P .. ':schedules_due'

local function schedule_version(row)
  local is_whole, _, $ScheduleRow[..version] = pcall(take, row, #$ScheduleRow[..version], #$ScheduleRow:head)
  return is_whole and version or nil
end

local function write_schedule(id, due_at, row)
  call('HSET', SCHEDULES, id, row)
  if due_at == '' then
    call('ZREM', SCHEDULES_DUE, id)
  else
    call('ZADD', SCHEDULES_DUE, due_at, id)
  end
end
