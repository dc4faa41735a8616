-- Removes hours before the oldest remaining job.

local function drop_old_hours()
  local oldest
  local function consider(left)
    for _, member in ipairs(left) do
      if not oldest or member < oldest then oldest = member end
    end
  end
  for state in pairs(STATE_SETS) do consider(call('ZRANGE', key_of('state', state), 0, 0)) end
  consider(call('ZRANGE', LEASES, 0, -1))
  local hours = call('HGETALL', P .. ':hours')
  for i = 1, #hours, 2 do
    if not oldest or hours[i + 1]:match(' (%d+)') < oldest then call('HDEL', P .. ':hours', hours[i]) end
  end
end
