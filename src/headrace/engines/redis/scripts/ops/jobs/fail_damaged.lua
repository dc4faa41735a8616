-- Fail jobs whose records are damaged: each gets a readable record, a dead letter, and one state. Undamaged jobs are
-- not changed.
-- ARGV: now, salt, then the number of a job and its id, or nothing, ...
-- Answers: how many there were

local REASON = 'corrupt_record'
local now, salt = tonumber(ARGV[1]), ARGV[2]
local failed, messages, queues = {}, {}, call('HKEYS', QUEUES)

-- The queue whose index has the job, most likely its own.
local function queue_of(member, stored)
  for _, queue in ipairs(queues) do
    if call('ZSCORE', key_of('queue', queue), member) then return queue end
  end
  if is_text(stored) and call('HEXISTS', QUEUES, stored) == 1 then return stored end
  return queues[1] or 'default'
end

-- Remove a job from every set of pending and running jobs.
local function leave_all(member)
  for _, queue in ipairs(queues) do
    for state in pairs(STATE_SETS) do drop(state_key(state, queue), member) end
    if call('ZSCORE', key_of('in:laned', queue), member) then
      for _, lane in ipairs(call('HKEYS', P .. ':lanes:' .. queue)) do for_each_lane_set(queue, lane, drop, member) end
    end
  end
  for state in pairs(STATE_SETS) do
    if state ~= 'running' then drop(key_of('state', state), member) end
  end
  drop(DUE, member)
  drop(LEASES, member)
  drop(EXPIRING, member)
end

-- Whether a job is pending where its record says, if it is pending.
local function is_in_its_set(member, j)
  local line = j.lane == '' and state_key('pending', j.queue) or P .. ':lane:' .. j.queue .. ':' .. j.lane
  return j.state ~= 'pending' or call('ZSCORE', line, member)
end

-- The job, as far as its record is readable.
local function readable_job(member, record, known_id)
  local $Record = unpack(salvage(record, #$Record), 1, #$Record)
  local function number(value, otherwise)
    return is_whole_number(value) and value or otherwise
  end
  return {
    state = STATE_SETS[state] and state or 'pending', version = math.max(number(version, 0), now),
    attempt = number(attempt, 0), queue = queue_of(member, queue), lane = '',
    id = is_id(known_id) and known_id ~= '' and known_id or is_id(id) and id or member,
    task = is_name(task) and task or 'unknown', priority = 0, rank = now, max_attempts = 1,
    created_at = number(created_at, now), run_at = now, crashes = 0, releases = 0,
  }
end

local function fail(member, j)
  local message = 'its record can no longer be read'
  record_history(member, j, now, 'fail', 'failed', REASON, nil, 'CorruptPayload', message, '')
  add_dead_letter(member, j, salt, {
    reason = REASON, at = now, error_type = 'CorruptPayload', error_message = message, error_traceback = '',
    fingerprint = redis.sha1hex(j.task .. '\0' .. REASON):sub(1, 16),
  })
  leave_all(member)
  flush()
  j.state, j.finished_at, j.reason = 'failed', now, REASON
  $Version(j) = $next_version(j.version, now)
  enter(member, j)
  add(key_of('queue', j.queue), member, member)
  add(key_of('task', j.task), member, member)
  put_record(member, encode_job(j))
  local id, empty = j.id, read_payload('')
  deferred[#deferred + 1] = function()
    call('HSET', IDS, id, member)
    call('HSETNX', PAYLOADS, member, pack($Payload(empty)))
  end
  flush()
  j.member, failed[#failed + 1] = member, j
end

guard()
for i = 3, #ARGV, 2 do
  local member, record = ARGV[i], call('HGET', JOBS, ARGV[i])
  local j = record and job_of(record)
  local is_whole = j and not has_damaged_lane(j) and is_in_its_set(member, j) and call('HEXISTS', PAYLOADS, member) == 1
  if record and not is_whole then fail(member, readable_job(member, record, ARGV[i + 1])) end
end
if #failed > 0 then
  if any_dependencies() then propagate(failed, now, messages) end
  messages.done = true
  if rules_exist() then messages.work = true end
  ring(messages)
end
return #failed
