-- Jobs whose time has come: they become pending, or expire; no more than one commit should hold.

local DUE_BATCH_SIZE = 5000

-- Calls `act` with every job of the set whose time has come. An entry whose job would not leave the set is dropped: it
-- would stay first for ever.
local function for_each_due(key, belongs, act)
  local members = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, DUE_BATCH_SIZE)
  local records = records_of(members, #members)
  for i, member in ipairs(members) do
    local j = job_of(records[i])
    if j and belongs(j) then
      act(member, j)
    else
      drop(key, member)
      if records[i] and not j then damaged[#damaged + 1] = member end
    end
  end
  flush()
end

local function is_delayed(j)
  return DELAYED[j.state]
end

local function can_expire(j)
  return j.expires_at and not FINAL[j.state] and j.state ~= 'running'
end

local expired_jobs = {}
local function expire(member, j)
  record_history(member, j, now, 'expire', 'cancelled', $Text.EXPIRED, j.finished_at)
  move(member, j, now, function() j.state, j.finished_at, j.reason = 'cancelled', now, 'expired' end)
  j.member, expired_jobs[#expired_jobs + 1] = member, j
end

local function promote(member, j)
  move(member, j, now, function() j.state = 'pending' end)
  add_event('job.promoted', now, j.queue, j.task, j.id)
end

local function expire_all()
  for_each_due(EXPIRING, can_expire, expire)
  if settle_dependencies then settle_dependencies.propagate(expired_jobs, now, messages) end
end

local function promote_all()
  for_each_due(DUE, is_delayed, promote)
end

return {expire = expire_all, promote = promote_all}
