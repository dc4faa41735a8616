-- Fail jobs whose records are damaged: each gets a readable record, a dead letter, and one state. Undamaged jobs are
-- not changed.
-- ARGV: now, salt, then the number of a job and its id, or nothing, ...
-- Answers: how many there were

local REASON = 'corrupt_record'
local now, salt = tonumber(ARGV[1]), ARGV[2]
local failed, messages, queues = {}, {}, call('HKEYS', QUEUES)

-- The queue whose index has the job, most likely its own.
local function queue_of(member, told)
  for _, queue in ipairs(queues) do
    if call('ZSCORE', named('queue', queue), member) then return queue end
  end
  if is_text(told) and call('HEXISTS', QUEUES, told) == 1 then return told end
  return queues[1] or 'default'
end

-- Remove a job from every set of pending and running jobs.
local function leave_all(member)
  for _, queue in ipairs(queues) do
    for state in pairs(PLACES) do drop(place(state, queue), member) end
    if call('ZSCORE', named('in:laned', queue), member) then
      for _, lane in ipairs(call('HKEYS', P .. ':lanes:' .. queue)) do for_lane(queue, lane, drop, member) end
    end
  end
  for state in pairs(PLACES) do
    if state ~= 'running' then drop(named('state', state), member) end
  end
  drop(DUE, member)
  drop(LEASES, member)
  drop(EXPIRING, member)
end

-- Whether a job is pending where its record says, if it is pending.
local function is_in_line(member, j)
  local line = j.lane == '' and place('pending', j.queue) or P .. ':lane:' .. j.queue .. ':' .. j.lane
  return j.state ~= 'pending' or call('ZSCORE', line, member)
end

-- The job, as far as its record is readable.
local function left_of(member, record, id)
  local told = salvage(record, 22)
  local function number(place, otherwise)
    return is_whole_number(told[place]) and told[place] or otherwise
  end
  return {
    state = PLACES[told[1]] and told[1] or 'pending', version = math.max(number(6, 0), now), attempt = number(7, 0),
    queue = queue_of(member, told[11]), lane = '',
    id = is_id(id) and id ~= '' and id or is_id(told[14]) and told[14] or member,
    task = is_name(told[15]) and told[15] or 'unknown', priority = 0, rank = now, max_attempts = 1,
    created_at = number(19, now), run_at = now, crashes = 0, releases = 0,
  }
end

local function fail(member, j)
  local told = 'its record can no longer be read'
  file(member, j, now, 'fail', 'failed', REASON, nil, 'CorruptPayload', told, '')
  bury(member, j, salt, {
    reason = REASON, at = now, error_type = 'CorruptPayload', error_message = told, error_traceback = '',
    fingerprint = redis.sha1hex(j.task .. '\0' .. REASON):sub(1, 16),
  })
  leave_all(member)
  flush()
  j.state, j.finished_at, j.reason, j.version = 'failed', now, REASON, j.version + 1
  enter(member, j)
  add(named('queue', j.queue), member, member)
  add(named('task', j.task), member, member)
  keep(member, written(j))
  local id = j.id
  deferred[#deferred + 1] = function()
    call('HSET', IDS, id, member)
    call('HSETNX', PAYLOADS, member, pack('', -1, nil, nil, nil, 0, nil))
  end
  flush()
  j.member, failed[#failed + 1] = member, j
end

guard()
for i = 3, #ARGV, 2 do
  local member, record = ARGV[i], call('HGET', JOBS, ARGV[i])
  local j = record and job_of(record)
  local is_whole = j and not is_shut_out(j) and is_in_line(member, j) and call('HEXISTS', PAYLOADS, member) == 1
  if record and not is_whole then fail(member, left_of(member, record, ARGV[i + 1])) end
end
if #failed > 0 then
  if any_kin() then follow(failed, now, messages) end
  messages.done = true
  if is_minded() then messages.work = true end
  ring(messages)
end
return #failed
