-- Rare parts of an exchange: notes, and outcomes other than plain successes. Created at the first one.

-- Notes. They count only while the version is the job's.

local function note(count, notes)
  local known, changed = {}, {}
  local offset = count < 16 and 1 or count < 65536 and 3 or 5
  for _ = 1, count do
    local next_offset, $JobNote = take(notes, #$JobNote, offset + #$JobNote:head)
    offset = next_offset
    local found = known[id]
    if found == nil then
      local member = call('HGET', IDS, id)
      local j = member and job_of(call('HGET', JOBS, member))
      found = j and {member, j} or false
      known[id] = found
    end
    if found and found[2].version == version then
      local member, j = found[1], found[2]
      if progress then
        j.progress = progress
        changed[member] = j
      end
      if message then
        append_to(level == 'stream' and level or 'logs', member, $LogLine:head .. pack(at, j.attempt, level, message, fields))
      end
    end
  end
  for member, j in pairs(changed) do put_record(member, encode_job(j)) end
  flush()
end

-- Outcomes.

-- The settled job; nothing if its record is damaged.
local function settle(member, record, o)
  local j = job_of(record)
  if not j then return nil end
  for _, event in ipairs(o.awaits or {}) do
    if call('HEXISTS', steps_key(member), step_field('event', event[2], event[1])) == 1 then
      o.state, o.run_at, o.reason = 'pending', now, nil -- it came meanwhile
    end
  end
  if not o.quiet and o.event ~= 'succeed' then
    record_history(member, j, o.at, o.event, o.state, o.reason, nil, o.error_type, o.error_message, o.error_traceback,
      o.run_at)
  end
  if o.event == 'fail' then
    o.reason = o.reason or 'failed'
    if o.opens_dead_letter then add_dead_letter(member, j, salt, o) end
  end
  move(member, j, o.at, function()
    j.state = o.state
    j.attempt, j.releases = j.attempt - o.attempt_refund, j.releases + o.attempt_refund
    if o.event == 'retry' or o.event == 'snooze' then j.crashes = 0 end -- a run that returned breaks the crash loop
    if o.run_at then j.run_at, j.rank = o.run_at, rank_at(j, o.run_at) end
    j.max_attempts = o.max_attempts or j.max_attempts
    j.result, j.result_checksum, j.reason, j.finished_at = o.result, o.result_checksum, o.reason, o.finished_at
    if not o.finished_at then j.worker = nil end
  end)
  if not o.finished_at then messages['work:' .. j.queue] = true end -- workers need to know when it is due
  if o.finished_at then messages.done = true end
  return j
end

-- The job's own run is over, but it has open children. False if its record is damaged.
local function settle_waiting(member, record, at, finished_at, result, result_checksum, open_children)
  local j = job_of(record)
  if not j then return false end
  local jobs = open_children .. (open_children == 1 and ' job' or ' jobs')
  local detail = string.format($Text.WAITS_FOR_CHILDREN, jobs)
  record_history(member, j, at, 'succeed', 'waiting', detail)
  move(member, j, at, function()
    j.state, j.finished_at, j.result, j.result_checksum = 'waiting', finished_at, result, result_checksum
    j.reason, j.expires_at = nil, nil -- it has started in time, also after a transfer
  end)
  return true
end

-- A second outcome of one claim is stale as well, and is recorded with the result of the first one.
local function record_stale(member, record, version, event, error_type, error_message, error_traceback)
  local j = job_of(record)
  if not j then return end
  local detail = string.format('late %s refused: it held version %.0f, the job is at %.0f', event, version, j.version)
  add_history_event(j, now, 'lease_lost', j.state, detail)
  append_history(member, {
    at = now, event = 'lease_lost', source = j.state, target = j.state, version = version, attempt = j.attempt,
    worker = worker ~= '' and worker or nil, detail = detail, error_type = error_type, error_message = error_message,
    error_traceback = error_traceback,
  })
end

return {note = note, settle = settle, settle_waiting = settle_waiting, record_stale = record_stale}
