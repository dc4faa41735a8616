-- Schedules: the stored form of each, and whether it is still at an expected version.

local SCHEDULES, TIMES = P .. ':schedules', P .. ':times'

local function version_of(row)
  local is_whole, _, _, version = pcall(take, row, 2, 3)
  return is_whole and version or nil
end

local function write_schedule(id, due_at, row)
  call('HSET', SCHEDULES, id, row)
  if due_at == '' then
    call('ZREM', TIMES, id)
  else
    call('ZADD', TIMES, due_at, id)
  end
end
