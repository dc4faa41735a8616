-- Insert jobs under their unique rules, one after the other. A decision is visible to later jobs, and everything is
-- written at the end.
-- ARGV: now, all_or_nothing, mark, again, count, ids, jobs (array of NewJob), their rules (each a UniqueRule or false),
-- then every state from which a job may be updated
-- Answers: a kind and an id for each job; or "moved" and the address of the other store; or the answer of `full_queue`;
-- or, with `all_or_nothing`, "duplicate" and the id of the conflicting job

local now, all_or_nothing, mark, again = tonumber(ARGV[1]), ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4] == '1'
local count, given, jobs, rules = tonumber(ARGV[5]), cmsgpack.unpack(ARGV[6]), ARGV[7], cmsgpack.unpack(ARGV[8])
local updatable = {}
for i = 9, #ARGV do updatable[ARGV[i]] = true end

local status = moved_to()
if status then return status end

-- An entry is a job at this point of the batch: `job`, its number, and its pending writes. `before` is the stored job,
-- if any; `content` replaces its content.

local entries_by_key, entries = {}, {}

-- The jobs of a key, oldest first, except those found to be finished before.
local function jobs_of(key)
  local list = entries_by_key[key]
  if not list then
    list = move_finished(key, call('ZRANGE', key_of('unique', key), 0, -1))
    entries_by_key[key], cleaned_keys[key] = list, true
  end
  return list
end

local function meets(j, counts_as, states, created_since, finished_since)
  if created_since and j.created_at < created_since then return false end
  if finished_since and not (j.finished_at and j.finished_at >= finished_since) then return false end
  for _, state in ipairs(states) do
    if counts_as == state then return true end
  end
  return false
end

local function meets_any(j, counts_as, conditions)
  for _, condition in ipairs(conditions) do
    if meets(j, counts_as, unpack(condition, 1, #$UniqueCondition)) then return true end
  end
  return false
end

-- The state that a job counts as. For amendments one that has begun counts as running, also between two of its runs:
-- its steps belong to its own arguments.
local function effective_state(entry, updates)
  local j = entry.job
  if not updates or not updatable[j.state] or entry.content then return j.state end
  if entry.is_begun == nil then
    entry.is_begun = j.reason and j.reason:sub(1, #$Text.AWAITING) == $Text.AWAITING
      or call('EXISTS', steps_key(entry.member)) == 1
  end
  return entry.is_begun and 'running' or j.state
end

-- The newest finished job that meets a condition, if it is newer than `found`. None is created after it finished.
local function newest_past(key, condition, found)
  local $UniqueCondition = unpack(condition, 1, #$UniqueCondition)
  local since = math.max(created_since or 0, finished_since or 0)
  for _, state in ipairs(states) do
    local members = FINAL[state] and call('ZRANGEBYSCORE', finished_key(state, key), text(since), '+inf') or {}
    table.sort(members)
    for i = #members, 1, -1 do
      local member = members[i]
      if found and found.member >= member then break end
      local j = job_of(call('HGET', JOBS, member))
      if j and meets(j, j.state, states, created_since, finished_since) then found = {member = member, job = j} end
    end
  end
  return found
end

local function newest(key, conditions, updates)
  local list, found = jobs_of(key), nil
  for i = #list, 1, -1 do
    if meets_any(list[i].job, effective_state(list[i], updates), conditions) then
      found = list[i]
      break
    end
  end
  for _, condition in ipairs(conditions) do found = newest_past(key, condition, found) end
  return found
end

local function store(new)
  local entry = {member = reserve_numbers(1)(), job = new, content = new}
  entries[#entries + 1] = entry
  if new.unique_key then
    local list = jobs_of(new.unique_key)
    list[#list + 1] = entry
  end
  grow_queue(new.queue, 1)
  return entry
end

-- Record that the job is updated, and set its new state. The old state is remembered once: the job has to be removed
-- from there, however often it changes in this batch.
local function begin_change(entry, target, detail)
  if not entry.before and not entry.content then
    entry.before, entry.job = entry.job, {}
    for name, value in pairs(entry.before) do entry.job[name] = value end
    entries[#entries + 1] = entry
  end
  local j = entry.job
  record_history(entry.member, j, now, 'update', target, detail, j.finished_at)
  j.state = target
  $Version(j) = $next_version(j.version, now)
  return j
end

local function reschedule(entry, new)
  local target = entry.job.state
  if target ~= 'waiting' then
    target = new.run_at <= now and 'pending' or target == 'retrying' and 'retrying' or 'scheduled'
  end
  local j = begin_change(entry, target, $Text.RESCHEDULED)
  j.run_at, j.rank = new.run_at, rank_at(j, new.run_at)
  grow_queue(j.queue, 0)
end

local function replace(entry, new)
  local target = entry.job.state
  if target ~= 'waiting' then target = new.run_at <= now and 'pending' or 'scheduled' end
  local j = begin_change(entry, target, $Text.REPLACED)
  grow_queue(j.queue, -1)
  grow_queue(new.queue, 1)
  j.task, j.queue, j.priority, j.rank, j.run_at = new.task, new.queue, new.priority, new.rank, new.run_at
  j.max_attempts, j.expires_at, j.lane = new.max_attempts, new.expires_at, lane_for(new.task, new.lane)
  entry.content = new
end

-- The result for a new job with the key of this existing one.
local function resolve_conflict(entry, new, act)
  if act == 'refuse' then return 'refused' end
  -- A waiting job whose own run is over has started, too.
  if act == 'keep' or not updatable[effective_state(entry, true)] or entry.job.finished_at then return 'existing' end
  if act ~= 'reschedule' then
    replace(entry, new)
    return 'replaced'
  end
  reschedule(entry, new)
  return 'rescheduled'
end

-- Jobs that have started, of a key whose newest call cancels them: a running one is asked to stop, and gets the next
-- version; the others are cancelled at once.

local cancelled, messages = {}, {}

local function request_cancel(member, j, reason)
  record_history(member, j, now, 'cancel_request', 'running', reason)
  j.reason = reason
  $Version(j) = $next_version(j.version, now)
  put_record(member, encode_job(j))
  messages.commands = true
end

local function cancel(member, j, reason)
  record_history(member, j, now, 'cancel', 'cancelled', reason, j.finished_at)
  move(member, j, now, function() j.state, j.finished_at, j.reason = 'cancelled', now, reason end)
  j.member, cancelled[#cancelled + 1], messages.done, messages.work = member, j, true, true
end

local function has_started(entry)
  return not entry.before and not entry.content
    and (entry.job.finished_at or effective_state(entry, true) == 'running')
end

local function cancel_started(key, newest)
  local reason = string.format($Text.CANCELLED_BY_CALL, newest.job.id)
  for _, entry in ipairs(jobs_of(key)) do
    local j = entry.job
    if not FINAL[j.state] and has_started(entry)
      and (j.reason or ''):sub(1, #$Text.CANCEL_REQUESTED) ~= $Text.CANCEL_REQUESTED then
      local runs = j.state == 'running'
      if runs then request_cancel(entry.member, j, reason) else cancel(entry.member, j, reason) end
      local detail = runs and $Text.CANCELS_RUNNING or $Text.CANCELS_STARTED
      append_remark(newest.member, newest.job, now, 'supersede', string.format(detail, j.id))
    end
  end
end

-- Writing.

local function write_new(entry)
  local j, c = entry.job, entry.content
  local new = {}
  for name, value in pairs(j) do new[name] = value end
  new.payload, new.checksum, new.options, new.tags, new.metadata = c.payload, c.checksum, c.options, c.tags, c.metadata
  submit(entry.member, mark, $NewJob(new))
end

-- The mark of the insert stays: a repeated call must recognize the job, also after a replacement. So does its flow.
local function write_content(member, before, j, c)
  local stored = read_payload(call('HGET', PAYLOADS, member))
  drop(key_of('queue', before.queue), member)
  drop(key_of('task', before.task), member)
  for _, tag in ipairs(tags_of(stored.tags)) do drop(key_of('tag', tag), member) end
  add(key_of('queue', j.queue), member, member)
  add(key_of('task', j.task), member, member)
  for _, tag in ipairs(tags_of(c.tags)) do add(key_of('tag', tag), member, member) end
  c.mark = stored.mark
  local payload_record = pack($Payload(c))
  deferred[#deferred + 1] = function() call('HSET', PAYLOADS, member, payload_record) end
end

local function write_change(entry)
  local member, before, j = entry.member, entry.before, entry.job
  leave(member, before)
  enter(member, j)
  put_record(member, encode_job(j))
  if entry.content then write_content(member, before, j, entry.content) end
end

local function read_job(offset)
  local next_offset, $NewJob = take(jobs, #$NewJob, offset + #$NewJob:head)
  local new = $NewJob{}
  new.attempt = 0
  return next_offset, new
end

local known, seen, results = read_in_parts('HMGET', IDS, given, count), {}, {}

local function result_for(i, new)
  if seen[new.id] then return 'taken', new.id end
  if known[i] then
    seen[new.id] = true
    return again and is_own_insert(known[i], mark) and 'new' or 'taken', new.id
  end
  local rule = new.unique_key and rules[i]
  local act = rule and rule[$UniqueRule.act]
  local updates = act == 'replace' or act == 'reschedule' or act == 'cancel'
  local entry = rule and newest(new.unique_key, rule[$UniqueRule.conditions], updates)
  if act == 'cancel' and entry and entry.job.finished_at then entry = nil end -- it has started
  local kind = 'new'
  if entry then
    kind = resolve_conflict(entry, new, act)
  else
    seen[new.id] = true
    entry = store(new)
  end
  if act == 'cancel' and kind ~= 'existing' then cancel_started(new.unique_key, entry) end
  return kind, entry.job.id
end

local offset = count < 16 and 1 or count < 65536 and 3 or 5
for i = 1, count do
  local new
  offset, new = read_job(offset)
  local kind, id = result_for(i, new)
  if all_or_nothing and (kind == 'taken' or kind == 'refused') then return {'duplicate', id} end
  results[2 * i - 1], results[2 * i] = kind, id
end
local full = full_queue()
if full then return full end
if #entries > 0 or next(drops) then
  for _, entry in ipairs(entries) do
    if entry.before then write_change(entry) else write_new(entry) end
  end
  will_publish = next(queue_growth) ~= nil
  flush_new_jobs()
  if #cancelled > 0 and call('EXISTS', HAS_DEPENDENCIES) == 1 then propagation().propagate(cancelled, now, messages) end
end
announce(now, messages)
return results
