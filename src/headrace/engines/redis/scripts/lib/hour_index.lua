-- Removes hours before the oldest remaining job.

local function forget_hours()
  local oldest
  local function consider(left)
    for _, member in ipairs(left) do
      if not oldest or member < oldest then oldest = member end
    end
  end
  for state in pairs(PLACES) do consider(call('ZRANGE', named('state', state), 0, 0)) end
  consider(call('ZRANGE', LEASES, 0, -1))
  local spans = call('HGETALL', P .. ':hours')
  for i = 1, #spans, 2 do
    if not oldest or spans[i + 1]:match(' (%d+)') < oldest then call('HDEL', P .. ':hours', spans[i]) end
  end
end
