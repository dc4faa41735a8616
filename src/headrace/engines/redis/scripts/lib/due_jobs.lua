-- Jobs whose time has come: they become pending, or expire; no more than one commit should hold.

local BATCH_OF_TIME = 5000

-- Calls `act` with every job of the set whose time has come. An entry whose job would not leave the set is dropped: it
-- would stay first for ever.
local function for_each_due(key, belongs, act)
  local members = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, BATCH_OF_TIME)
  local records = records_of(members, #members)
  for i, member in ipairs(members) do
    local j = job_of(records[i])
    if j and belongs(j) then
      act(member, j)
    else
      drop(key, member)
      if records[i] and not j then spoiled[#spoiled + 1] = member end
    end
  end
  flush()
end

local function is_put_off(j)
  return PUT_OFF[j.state]
end

local function has_end(j)
  return j.expires_at and not FINAL[j.state] and j.state ~= 'running'
end

local lapsed = {}
local function lapse(member, j)
  file(member, j, now, 'expire', 'cancelled', 'expired before it started', j.finished_at)
  move(member, j, function() j.state, j.finished_at, j.reason = 'cancelled', now, 'expired' end)
  j.member, lapsed[#lapsed + 1] = member, j
end

local function promote(member, j)
  move(member, j, function() j.state = 'pending' end)
  tell_event('job.promoted', now, j.queue, j.task, j.id)
end

local function lapse_all()
  for_each_due(EXPIRING, has_end, lapse)
  if settle_dependencies then settle_dependencies.follow(lapsed, now, messages) end
end

local function promote_all()
  for_each_due(DUE, is_put_off, promote)
end

return {lapse = lapse_all, promote = promote_all}
