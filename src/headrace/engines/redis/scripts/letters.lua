-- Dead letters: what is kept of a job that failed for good, until somebody has looked at it.

local LETTERS, DEAD, UNRESOLVED = P .. ':letters', P .. ':dead', P .. ':unresolved'

-- A text or a number in JSON. cjson is given texts only: it rounds numbers to 14 digits.
local function json(value)
  if value == nil then return 'null' end
  return type(value) == 'number' and string.format('%.0f', value) or cjson.encode(value)
end

local function snapshot(member, j, error_type, error_message, error_traceback)
  local _, payload, checksum, options, tags, metadata = take(call('HGET', BODIES, member), 5)
  local fields = {
    'state', json(j.state), 'payload', json(payload), 'checksum', json(checksum), 'options', json(options),
    'tags', json(tags), 'metadata', json(metadata), 'priority', json(j.priority), 'attempt', json(j.attempt),
    'created_at', json(j.created_at), 'started_at', json(j.started_at), 'worker', json(j.worker),
    'error_type', json(error_type), 'error_message', json(error_message), 'error_traceback', json(error_traceback),
  }
  local parts = {}
  for i = 1, #fields, 2 do parts[#parts + 1] = '"' .. fields[i] .. '":' .. fields[i + 1] end
  return '{' .. table.concat(parts, ',') .. '}'
end

local function put_letter(id, job_id, task, queue, reason, entered_at, status, resolved_at, resolved_by, told)
  call('HSET', LETTERS, id, '\154' .. pack(id, job_id, task, queue, reason, entered_at, status, resolved_at,
    resolved_by, told))
end

-- Open a dead letter, or bring the one that is open up to date. To be called before the job moves; it is written with
-- everything else.
local function bury(member, j, salt, reason, at, error_type, error_message, error_traceback)
  local told = snapshot(member, j, error_type, error_message, error_traceback)
  local job_id, task, queue = j.id, j.task, j.queue
  local id, _ = call('HGET', UNRESOLVED, job_id), nil
  local is_new = not id
  if is_new then
    id = redis.sha1hex(salt .. ':' .. member .. ':' .. j.version):sub(1, 32)
  else
    _, _, _, task, queue = take(call('HGET', LETTERS, id), 4, 1)
  end
  deferred[#deferred + 1] = function()
    put_letter(id, job_id, task, queue, reason, at, 'pending', nil, nil, told)
    if is_new then
      call('HSET', UNRESOLVED, job_id, id)
      call('ZADD', DEAD, 0, id)
    end
  end
end

-- Whoever revives a job has dealt with its letter.
local function requeue_letter(job_id, now, by)
  local id = call('HGET', UNRESOLVED, job_id)
  if id then
    local _, _, _, task, queue, reason, entered_at, _, _, _, told = take(call('HGET', LETTERS, id), 10, 1)
    deferred[#deferred + 1] = function()
      put_letter(id, job_id, task, queue, reason, entered_at, 'requeued', now, by, told)
      call('HDEL', UNRESOLVED, job_id)
    end
  end
end
