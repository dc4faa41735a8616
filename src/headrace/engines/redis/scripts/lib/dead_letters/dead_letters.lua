-- Dead letters: the records of jobs that failed for good.

local DEAD_LETTERS, DEAD_IDS, DEAD_PENDING, DEAD_LATEST =
  P .. ':dead_letters', P .. ':dead_ids', P .. ':dead_pending', P .. ':dead_latest'
local KINDS = {'task', 'queue', 'reason', 'fingerprint', 'requeues'}

-- Whether a dead letter has these values by the order of KINDS, false for any, and ended before a time.
local function dead_letter_matches(l, wanted, before)
  for k, kind in ipairs(KINDS) do
    if wanted[k] ~= false and wanted[k] ~= l[kind] then return false end
  end
  return not before or (tonumber(l.resolved_at) or tonumber(l.entered_at) or 0) < before
end

local function parents_in_json(member)
  local parents, items = call('HKEYS', P .. ':parents:' .. member), {}
  for _, record in ipairs(records_of(parents, #parents)) do
    local parent = job_of(record)
    if parent then items[#items + 1] = json(parent.id) end
  end
  return '[' .. table.concat(items, ',') .. ']'
end

local function list_in_json(...)
  local items, n = {...}, select('#', ...)
  for i = 1, n do items[i] = json(items[i]) end
  return '[' .. table.concat(items, ',') .. ']'
end

-- The values of a record, by position; none of a damaged one.
local function values_of(record, n, head_size)
  local values = {pcall(take, record, n, head_size)}
  return values[1] and {unpack(values, 3, n + 2)} or {}
end

-- The index, from 0 on, of the first failure in the job's history; nothing if these entries have none.
local function first_failure(key, count)
  for first = 0, count - 1, 50 do
    for i, entry in ipairs(call('LRANGE', key, first, math.min(first + 49, count - 1))) do
      if values_of(entry, #$HistoryRow, #$HistoryRow:head)[$HistoryRow.error_type] then return first + i - 1 end
    end
  end
end

-- The history of the job, the newest first, and the first failure; each the array of a HistoryRow.
local function history_in_json(member, j)
  local items, key = {}, P .. ':history:' .. member
  local entries = call('LRANGE', key, -10, -1)
  local older = call('LLEN', key) - #entries
  local first = first_failure(key, older)
  if first then table.insert(entries, 1, call('LINDEX', key, first)) end
  for i = #entries, 1, -1 do
    local $HistoryRow = unpack(values_of(entries[i], #$HistoryRow, #$HistoryRow:head), 1, #$HistoryRow)
    if all_are(is_whole_number, at, version, attempt) and version <= j.version then
      items[#items + 1] = list_in_json($HistoryRow)
    end
  end
  return '[' .. table.concat(items, ',') .. ']'
end

-- The names of the job's first hundred steps.
local function steps_in_json(member)
  local found, items = call('HVALS', P .. ':steps:' .. member), {}
  table.sort(found)
  for _, step in ipairs(found) do
    local $Step[..name] = unpack(values_of(step, #$Step[..name], 12 + #$Step:head), 1, #$Step[..name])
    if kind == 'step' and is_text(name) and #items < 100 then items[#items + 1] = json(name) end
  end
  return '[' .. table.concat(items, ',') .. ']'
end

-- The last lines of its log, the newest first; each the array of a LogLine.
local function logs_in_json(member)
  local lines, items = call('LRANGE', P .. ':logs:' .. member, -10, -1), {}
  for i = #lines, 1, -1 do
    local $LogLine = unpack(values_of(lines[i], #$LogLine, #$LogLine:head), 1, #$LogLine)
    if all_are(is_whole_number, at, attempt) then items[#items + 1] = list_in_json($LogLine) end
  end
  return '[' .. table.concat(items, ',') .. ']'
end

local function snapshot_in_json(member, j, o)
  local p = read_payload(call('HGET', PAYLOADS, member))
  local fields = {
    'state', json(j.state), 'payload', json(p.payload), 'checksum', json(p.checksum), 'options', json(p.options),
    'tags', json(p.tags), 'metadata', json(p.metadata), 'priority', json(j.priority), 'attempt', json(j.attempt),
    'max_attempts', json(o.max_attempts or j.max_attempts), 'created_at', json(j.created_at),
    'started_at', json(j.started_at), 'worker', json(j.worker), 'error_type', json(o.error_type),
    'error_message', json(o.error_message), 'error_traceback', json(o.error_traceback),
    'lifo', j.rank < 0 and '1' or '0', 'lane', json(j.lane), 'unique_key', json(p.unique_key),
    'flow', json(call('HGET', JOB_FLOW, member) or nil), 'parents', parents_in_json(member),
    'history', history_in_json(member, j), 'version', json(j.version), 'progress', json(j.progress),
    'steps', steps_in_json(member), 'logs', logs_in_json(member),
    'crashes', o.crashes or '[]',
  }
  local parts = {}
  for i = 1, #fields, 2 do parts[#parts + 1] = '"' .. fields[i] .. '":' .. fields[i + 1] end
  return '{' .. table.concat(parts, ',') .. '}'
end

-- The status of a dead letter by the set that holds it.
local function status_of(id)
  for _, status in ipairs({'pending', 'requeued', 'manually_resolved', 'permanently_failed', 'cancelled', 'expired'}) do
    if call('ZSCORE', key_of('dead', status), id) then return status end
  end
  return 'pending'
end

-- A dead letter. Unreadable values of a damaged one are empty, so that it can be resolved and removed like any other.
-- `id` is that of a stored one; the set that holds it gives its status.
local function read_dead_letter(packed, id)
  local values = salvage(packed, #$DeadLetterRow, #$DeadLetterRow:head)
  local known_id, $DeadLetterRow = id, unpack(values, 1, #$DeadLetterRow)
  local function either(is_right, value, otherwise)
    return is_right(value) and value or otherwise
  end
  return {
    id = known_id or id, job_id = either(is_text, job_id, ''), task = either(is_text, task, ''),
    queue = either(is_text, queue, ''), reason = either(is_text, reason, ''),
    entered_at = either(is_whole_number, entered_at, 0),
    status = (not known_id or call('ZSCORE', key_of('dead', either(is_text, status, '')), known_id)) and status
      or status_of(known_id),
    resolved_at = either(is_whole_number, resolved_at), resolved_by = either(is_text, resolved_by),
    snapshot = either(is_text, snapshot, ''), fingerprint = either(is_text, fingerprint, ''),
    requeues = either(is_whole_number, requeues, 0), notes = either(is_text, notes),
  }
end

local function dead_index_key(status, kind, value)
  return P .. ':dead:' .. status .. ':' .. kind .. ':' .. (kind == 'requeues' and text(value) or value)
end

-- Calls `act` (add or drop) with every index set of a dead letter of this status.
local function for_each_dead_index(l, act, ...)
  act(key_of('dead', l.status), ...)
  for _, kind in ipairs(KINDS) do act(dead_index_key(l.status, kind, l[kind]), ...) end
end

local function count_requeues(l, sign)
  if l.requeues > 0 then
    deferred[#deferred + 1] = function()
      call('HINCRBY', P .. ':dead_requeues', l.status .. ':' .. l.reason, sign * l.requeues)
    end
  end
end

-- Add the dead letter in its present state, and its index entries, to the pending writes.
local function put_dead_letter(l)
  local packed = $DeadLetterRow:head .. pack($DeadLetterRow(l))
  local id, job_id, reason, fingerprint, is_open = l.id, l.job_id, l.reason, l.fingerprint, l.status == 'pending'
  for_each_dead_index(l, add, '0', id)
  add(DEAD_IDS, '0', id)
  deferred[#deferred + 1] = function()
    call('HSET', DEAD_LETTERS, id, packed)
    call('SADD', P .. ':dead_reasons', reason)
    call('SADD', P .. ':dead_fingerprints', fingerprint)
    local latest = call('HGET', DEAD_LATEST, job_id)
    if not latest or latest < id then call('HSET', DEAD_LATEST, job_id, id) end
    if is_open then call('HSET', DEAD_PENDING, job_id, id) end
  end
  count_requeues({status = l.status, reason = reason, requeues = l.requeues}, 1)
end

local function add_dead_letter_event(l, kind, at)
  local by = l.resolved_by and ',"by":' .. json(l.resolved_by) or ''
  add_event(kind, at, l.queue, l.task, l.job_id, '{"id":' .. json(l.id) .. ',"reason":' .. json(l.reason)
    .. ',"fingerprint":' .. json(l.fingerprint) .. ',"status":' .. json(l.status) .. by .. '}')
end

-- Remove the index entries of the dead letter's present state.
local function drop_dead_indexes(l)
  for_each_dead_index(l, drop, l.id)
  count_requeues({status = l.status, reason = l.reason, requeues = l.requeues}, -1)
end

-- Open a dead letter, in place of a pending one. To be called before the job moves; written with everything else.
local function add_dead_letter(member, j, salt, o)
  local l = {
    id = string.format('%012x%04x', o.at, j.version % 65536)
      .. redis.sha1hex(salt .. ':' .. member .. ':' .. j.version):sub(1, 16),
    job_id = j.id, task = j.task, queue = j.queue, reason = o.reason, entered_at = o.at, status = 'pending',
    snapshot = snapshot_in_json(member, j, o), fingerprint = o.fingerprint or '', requeues = 0, notes = o.notes,
  }
  local latest = call('HGET', DEAD_LATEST, j.id)
  local before = latest and call('HGET', DEAD_LETTERS, latest)
  if before then l.requeues = read_dead_letter(before, latest).requeues end
  local open = call('HGET', DEAD_PENDING, j.id)
  local opened = open and call('HGET', DEAD_LETTERS, open)
  if opened then
    local old = read_dead_letter(opened, open)
    l.notes = old.notes
    drop_dead_indexes(old)
    drop(DEAD_IDS, open)
    deferred[#deferred + 1] = function()
      call('HDEL', DEAD_LETTERS, open)
      call('HDEL', DEAD_LATEST, l.job_id)
    end
  end
  add_dead_letter_event(l, 'dead.entered', o.at)
  put_dead_letter(l)
end
