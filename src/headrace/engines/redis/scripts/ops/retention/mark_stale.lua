-- Apply staleness decisions to jobs that are still at the expected version.
-- ARGV: now, salt, reason, then id, version, "dead", "fail" or "review", detail, fingerprint, ...
-- Answers: for each 1 if something was written, 0 if not

local now, salt, reason = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local done, failed, messages, seen = {}, {}, {}, {}

local function was_reviewed(member, version)
  for _, entry in ipairs(call('LRANGE', P .. ':history:' .. member, 0, -1)) do
    local _, event, _, _, at_version = unpack(salvage(entry, 5, 1), 1, 5)
    if event == 'review' and at_version == version then return true end
  end
  return false
end

-- Recorded separately: the job does not move, so its version stays.
local function review(member, j, detail)
  if was_reviewed(member, j.version) then return 0 end
  local n = #appends
  appends[n + 1] = P .. ':history:' .. member
  appends[n + 2] = '\157' .. pack(now, 'review', j.state, j.state, j.version, j.attempt, j.worker, j.started_at, nil,
    detail, nil, nil, nil)
  add_history_event(j, now, 'review', j.state, detail)
  return 1
end

local function fail(member, j, action, detail, fingerprint)
  record_history(member, j, now, 'stale', 'failed', detail, j.finished_at)
  if action == 'dead' then
    add_dead_letter(member, j, salt, {
      reason = reason, at = now, error_type = 'StaleJob', error_message = detail, error_traceback = '',
      fingerprint = fingerprint,
    })
  end
  move(member, j, function() j.state, j.finished_at, j.reason = 'failed', now, reason end)
  j.member, failed[#failed + 1] = member, j
  return 1
end

-- Transferred jobs are judged in their new store, and not before all their dependents are there.
local is_closed = store_status()
guard()
for i = 4, #ARGV, 5 do
  local id, version, action, detail = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3]
  local member = call('HGET', IDS, id)
  local j = member and not is_closed and not seen[member] and job_of(call('HGET', JOBS, member))
  local encode_job = 0
  if j and j.version == version and not FINAL[j.state] then
    seen[member] = true
    if action == 'review' then
      encode_job = review(member, j, detail)
    else
      encode_job = fail(member, j, action, detail, ARGV[i + 4])
    end
  end
  done[#done + 1] = encode_job
end
flush()
if #failed > 0 then
  if any_dependencies() then propagate(failed, now, messages) end
  messages.done, messages.commands = true, true
  if rules_exist() then messages.work = true end
  ring(messages)
end
return done
