-- The base of every script: the keys, and the functions that move a job from one state to another.
--
-- KEYS[1] is the hash tag, "{prefix}". Every key is that tag and a name, so all keys are in one hash slot of a cluster.
-- No key is named by the tag alone: during a slot migration the cluster therefore refuses a script, rather than run it
-- on half of the keys.
--
-- A script decides first and writes at the end, because nothing is rolled back: `guard` makes the server refuse at the
-- start what it would refuse later, and `flush` writes. The time is always an argument.
--
-- Texts are stored as they came. Records are MessagePack, a value for each field without a header (absent is nil),
-- which `take` and `pack` decode and encode. A job's number, its `seq`, has twelve digits, so that jobs of one score
-- are sorted by number.
--
--   {p}:version        text: the version of this layout
--   {p}:store          text: a random name of this store
--   {p}:seq            the last number given to a job
--   {p}:bell           channel: "work:<queue>", "done", "commands", "schedules"; "!<sender> <topic>" is sent by an engine
--   {p}:status         hash kind, other, at: the store status, set during a transfer and afterwards
--
--   {p}:ids            hash: a job's id -> its number
--   {p}:jobs           hash: number -> $Record, as in script_records.py. A success changes the fields up to the
--                      version, a claim those up to the worker: the rest is copied unchanged. The end of a lease is
--                      in {p}:leases alone.
--   {p}:payloads       hash: number -> $Payload: only a replacement changes these. The mark is the random number of
--                      one insert: by it a repeated insert recognizes its own jobs.
--   {p}:history:<number>   list: the history of the job, each the array of a HistoryRow
--   {p}:logs:<number>  list: what the job logged, each the array of a LogLine
--   {p}:stream:<number>  list: what the job streamed, likewise
--   {p}:steps:<number>   hash: the steps of the job, by kind, number and name, see `step_field`: twelve digits for the
--                      order, and the array of a Step
--   {p}:hours          hash: hour of created_at -> the lowest number of its jobs, and an upper bound
--
--   Jobs by state, sorted sets of numbers:
--   {p}:in:<state>:<queue>   by `sort_score` if pending, run_at if scheduled or retrying, seq if waiting, started_at if
--                      running, finished_at if finished; of pending jobs only those without a lane
--   {p}:in:laned:<queue>   by `sort_score`: pending, and in a lane
--   {p}:lane:<queue>:<lane>   the same of one lane
--   {p}:held:<gate>    by number: running jobs under this limit, if it is a concurrency limit
--   {p}:due            by run_at: scheduled and retrying
--   {p}:leases         by the end of the lease: running
--   {p}:expiring       by expires_at: not started, and may expire
--
--   Indexes of jobs, sorted sets by number:
--   {p}:queue:<queue>, {p}:task:<task>, {p}:tag:<tag>
--   {p}:state:<state>  of every state but running: running jobs are few, and found by {p}:leases
--   {p}:worker:<worker>   jobs that finished with this worker, or wait for others after their own run
--   {p}:flow:<flow>    the jobs of this flow
--
--   Jobs that have a key, sorted sets of numbers; see `unique_keys`:
--   {p}:unique:<key>   by number: all that are not in one of the others
--   {p}:unique_done:<state>:<key>   by finished_at: those that were found to be finished
--
--   Dependencies; see `dependencies`. A policy is stored as its first letter:
--   {p}:has_dependencies   set of numbers: all parents, and children that existed before their dependency. The
--                      end of any other job affects no other job
--   {p}:parents:<number>   hash: the number of each parent -> policy
--   {p}:children:<number>   hash: the number of each child -> policy
--   {p}:blocks:<number>   set of numbers: the parents that it still waits for
--   {p}:flows          hash: id of a flow -> the array of a FlowRow
--   {p}:flow_ids       sorted set of these ids, all of score 0: by id
--   {p}:job_flow       hash: number of a job in a flow -> the flow's id
--
--   {p}:queues         hash: name -> created_at and, if it has any, a space and its QueueRules in JSON
--   {p}:paused         set of names
--   {p}:queues_with_rules   set of names of queues with rules
--   {p}:queues_with_lanes   set of names of queues with jobs in lanes
--   {p}:lanes:<queue>  hash: each of these lanes -> the level of its first job, see `level_of`
--   {p}:turns:<queue>  sorted set of level and lane, written together, all of score 0: by level and by name
--   {p}:tasks          hash: name of a task with rules -> its TaskRules in JSON
--   {p}:documents:<kind>   hash: key of a document -> its version, then ' ' and its value or 'z' and this compressed
--   {p}:document_keys:<kind>   sorted set of these keys, all of score 0: by key
--   {p}:document_kinds   sorted set of the kinds that have any document, all of score 0: by name
--   {p}:rate_buckets   sorted set of rate buckets, by the time in microseconds when the full burst is available
--                      again
--   {p}:workers        hash: id -> WorkerRow
--   {p}:dead_letters   hash: id of a dead letter -> the array of a DeadLetterRow
--   {p}:dead_ids       sorted set of these ids, all of score 0: by id, which begins with the time of entry
--   {p}:dead_pending   hash: id of a job -> its pending dead letter
--   {p}:dead_latest    hash: id of a job -> its newest dead letter
--   {p}:dead:<status>  sorted set of ids of dead letters, all of score 0: those of this status
--   {p}:dead:<status>:<kind>:<value>   those of them with this task, queue, reason, fingerprint or number of requeues
--   {p}:dead_reasons, {p}:dead_fingerprints      sets of the reasons and fingerprints of dead letters
--   {p}:dead_requeues  hash: status, a colon and a reason -> the sum of the requeues of these
--
--   {p}:events         stream: the event log, an entry for each commit: page, size, at and `only`, the jobs it is
--                      true of if not of all; see core/events/log.py
--   {p}:events_count   the number of events in it
--   {p}:events_copy:<name>   stream: a copy without the data of some jobs, which takes its place
--   {p}:events_copies  how many copies have taken its place
--
--   {p}:schedules      hash: id -> the array of a ScheduleRow
--   {p}:schedules_due  sorted set of these ids by due_at: schedules that will fire
--   {p}:occurrences:<schedule>   list: the results of its times, the newest first, each the array of an Occurrence

local P = KEYS[1]
local call, pack, take = redis.call, cmsgpack.pack, cmsgpack.unpack_limit
local IDS, JOBS, PAYLOADS = P .. ':ids', P .. ':jobs', P .. ':payloads'
local DUE, LEASES, EXPIRING = P .. ':due', P .. ':leases', P .. ':expiring'
local QUEUES, QUEUES_WITH_RULES, QUEUES_WITH_LANES, TASKS =
  P .. ':queues', P .. ':queues_with_rules', P .. ':queues_with_lanes', P .. ':tasks'
local HAS_DEPENDENCIES, JOB_FLOW = P .. ':has_dependencies', P .. ':job_flow'

local DELAYED = {scheduled = true, retrying = true}
local FINAL = {completed = true, failed = true, cancelled = true}
local HAS_RUN = {completed = true, failed = true, cancelled = true, waiting = true} -- if it has a worker

local BATCH_SIZE = 4000 -- arguments of one call; Lua's stack holds some 8000

-- Fail now for what would fail later: out of memory, a replica, a disk error. The call changes nothing: no key of this
-- name ever exists.
local function guard()
  call('SETRANGE', P .. ':guard', '0', '')
end

-- The same for scripts that must run when memory is exhausted, since only finished jobs can be deleted: a script whose
-- first write deletes something is not refused then.
local function guard_without_memory()
  call('DEL', P .. ':guard')
end

-- The store status as the answer to a refused change: "moved" or "arriving", and the address of the other store.
local function store_status()
  local status = call('HMGET', P .. ':status', 'kind', 'other')
  return status[1] and status
end

-- The same, only of a store that has moved.
local function moved_to()
  local status = call('HMGET', P .. ':status', 'kind', 'other')
  return status[1] == 'moved' and status
end

-- Whether the store status says that jobs arrive from this origin; true without an origin.
local function still_arriving(origin)
  local status = store_status()
  return origin == '' or (status and status[1] == 'arriving' and status[2] == origin)
end

-- The command with a list of any length, in parts; `n` is the list's length, as lists may end in nil.
local function write_in_parts(command, key, list, n)
  for first = 1, n, BATCH_SIZE do
    call(command, key, unpack(list, first, math.min(first + BATCH_SIZE - 1, n)))
  end
end

-- The same for a command that returns a list, with false for missing values.
local function read_in_parts(command, key, list, n)
  if n == 0 then return {} end
  if n <= BATCH_SIZE then return call(command, key, unpack(list, 1, n)) end
  local answers = {}
  for first = 1, n, BATCH_SIZE do
    local part = call(command, key, unpack(list, first, math.min(first + BATCH_SIZE - 1, n)))
    for i = 1, #part do answers[first + i - 1] = part[i] end
  end
  return answers
end

-- Pending writes, collected by key: a call for each job and key would cost more than all the rest.
local adds, drops, appends, deferred = {}, {}, {}, {}
local put_records, put_count = {}, 0
local touched = {} -- queue -> lane -> true: lanes that may be empty now, or may have been

local function add(key, score, member)
  local list = adds[key]
  if not list then
    adds[key] = {score, member, n = 2}
    return
  end
  local n = list.n
  list[n + 1], list[n + 2], list.n = score, member, n + 2
end

local function drop(key, member)
  local list = drops[key]
  if not list then
    drops[key] = {member, n = 1}
    return
  end
  local n = list.n + 1
  list[n], list.n = member, n
end

local function put_record(member, record)
  put_records[put_count + 1], put_records[put_count + 2] = member, record
  put_count = put_count + 2
end

-- The claim order as one number that a double holds exactly: 201 priorities, high first, and for each 45 bits for the
-- rank. Times after the year 2527 count as that year.
local RANKS, MAX_RANK = 2 ^ 45, 2 ^ 44 - 1

-- A priority as three digits that sort with the highest first: "000" is 100, "200" is -100.
local function level_of(score)
  return string.format('%03.0f', math.floor((tonumber(score) + RANKS / 2) / RANKS))
end

-- A lane exists as long as it has jobs, with the urgency of the first; and its queue is marked as one with lanes.
local function update_lanes()
  for queue, lanes in pairs(touched) do
    local levels, turns = P .. ':lanes:' .. queue, P .. ':turns:' .. queue
    for lane in pairs(lanes) do
      local known = call('HGET', levels, lane)
      local first = call('ZRANGE', P .. ':lane:' .. queue .. ':' .. lane, 0, 0, 'WITHSCORES')[2]
      local level = first and level_of(first)
      if known and known ~= level then call('ZREM', turns, known .. lane) end
      if level then
        call('ZADD', turns, '0', level .. lane) -- also if it is known: without a turn it is never served
        if known ~= level then call('HSET', levels, lane, level) end
      else
        call('HDEL', levels, lane)
      end
    end
    call(call('EXISTS', turns) == 1 and 'SADD' or 'SREM', QUEUES_WITH_LANES, queue)
  end
  touched = {}
end

-- A whole number as text. The server would format a number with 17 digits of precision, which takes longer than a read
-- command; so commands get only texts, and jobs of one batch share many numbers.
local texts = {}
local function text(number)
  local known = texts[number]
  if not known then
    known = string.format('%.0f', number)
    texts[number] = known
  end
  return known
end

-- A text or a number in JSON. cjson encodes only texts: it rounds numbers to 14 digits.
local function json(value)
  if value == nil then return 'null' end
  return type(value) == 'number' and text(value) or cjson.encode(value)
end

-- The events of this commit: groups in JSON, and jobs with the same event, by type, queue and task in the order of
-- occurrence. The order is that of the other engines: resolved dead letters, recorded history, everything else.
local encoded_groups, open_groups, last_group = {}, {}, nil
-- Followers of events get every message: a script that publishes another one need not publish for its events.
local will_publish = false

local function store_page(page, size, at, only)
  call('XADD', P .. ':events', '*', 'page', page, 'size', size, 'at', at, 'only', only or '')
  -- A damaged counter that cannot be incremented starts again.
  if type(redis.pcall('INCRBY', P .. ':events_count', size)) == 'table' then call('SET', P .. ':events_count', size) end
  if not will_publish then redis.pcall('PUBLISH', P .. ':bell', 'events') end
end

local function add_event(kind, at, queue, task, id, data)
  local group = last_group
  if not group or group.task ~= task or group.queue ~= queue or group.kind ~= kind then
    local name = kind .. '\n' .. queue .. '\n' .. task -- a name has no line breaks
    group = open_groups[name]
    if not group then
      group = {kind = kind, at = at, queue = queue, task = task, n = 0}
      open_groups[name], open_groups[#open_groups + 1] = group, group
    end
    last_group = group
  end
  local n = group.n + 1
  group[n], group.n = id, n
  if data then
    local all = group.data or {}
    for i = #all + 1, n - 1 do all[i] = '{}' end
    all[n], group.data = data, all
  end
end

-- An id needs no escapes: see `is_id`.
local function store_events()
  local size, at, resolved = #encoded_groups, 0, 0
  for _, group in ipairs(open_groups) do
    local n, data = group.n, group.data or {}
    for i = #data + 1, group.data and n or 0 do data[i] = '{}' end
    local encoded = '["' .. group.kind .. '",' .. json(group.at) .. ',' .. json(group.queue) .. ','
      .. json(group.task) .. ',null,["' .. table.concat(group, '","', 1, n) .. '"],[],[],[],[],['
      .. table.concat(data, ',') .. ']]'
    if group.kind == 'dead.resolved' then resolved = resolved + 1 end
    table.insert(encoded_groups, group.kind == 'dead.resolved' and resolved or #encoded_groups + 1, encoded)
    size, at = size + n, math.max(at, group.at)
  end
  store_page('[' .. table.concat(encoded_groups, ',') .. ']', text(size), text(math.max(at, encoded_groups.at or 0)))
  encoded_groups, open_groups, last_group = {}, {}, nil
end

local function flush()
  write_in_parts('HSET', JOBS, put_records, put_count)
  for key, list in pairs(drops) do write_in_parts('ZREM', key, list, list.n) end
  for key, list in pairs(adds) do write_in_parts('ZADD', key, list, list.n) end
  for i = 1, #appends, 2 do call('RPUSH', appends[i], appends[i + 1]) end
  for i = 1, #deferred do deferred[i]() end
  if #encoded_groups > 0 or next(open_groups) then store_events() end
  adds, drops, appends, deferred, put_records, put_count = {}, {}, {}, {}, {}, 0
end

-- The key of this kind and name, cached: concatenation costs more than a lookup.
local keys = {}
local function key_of(kind, name)
  local of_kind = keys[kind]
  local key = of_kind and of_kind[name]
  if not key then
    key = P .. ':' .. kind .. ':' .. name
    if of_kind then of_kind[name] = key else keys[kind] = {[name] = key} end
  end
  return key
end

local STATE_SETS = {
  scheduled = 'in:scheduled', waiting = 'in:waiting', pending = 'in:pending', running = 'in:running',
  retrying = 'in:retrying', completed = 'in:completed', failed = 'in:failed', cancelled = 'in:cancelled',
}
local function state_key(state, queue)
  return key_of(STATE_SETS[state], queue)
end

local function sort_score(priority, rank)
  return text((100 - priority) * RANKS + math.max(-MAX_RANK, math.min(rank, MAX_RANK)))
end

local function is_text(value)
  return type(value) == 'string'
end

-- Whether a text is UTF-8. Nearly every name is ASCII.
local function is_utf8(value)
  if not value:find('[\128-\255]') then return true end
  if value:find('\224[\128-\159]') or value:find('\237[\160-\191]') or value:find('\240[\128-\143]')
    or value:find('\244[\144-\191]') then
    return false
  end
  local rest = value:gsub('[\194-\223][\128-\191]', ' '):gsub('[\224-\239][\128-\191][\128-\191]', ' ')
    :gsub('[\240-\244][\128-\191][\128-\191][\128-\191]', ' ')
  return not rest:find('[\128-\255]')
end

-- Invalid UTF-8 comes back from Python as another name, by which nothing is found.
local function is_name(value)
  return is_text(value) and is_utf8(value)
end

-- An id needs no escapes: see core/jobs/ids.py.
local function is_id(value)
  return is_name(value) and not value:find('["\\]')
end

local function is_whole_number(value)
  return type(value) == 'number' and value % 1 == 0 and value > -2 ^ 63 and value < 2 ^ 63
end

-- Whether each of these exists and has the right type, or is absent where it may be.
local function all_are(is_right, ...)
  for i = 1, select('#', ...) do
    if not is_right((select(i, ...))) then return false end
  end
  return true
end

local function none_or_all_are(is_right, ...)
  for i = 1, select('#', ...) do
    local value = select(i, ...)
    if value ~= nil and not is_right(value) then return false end
  end
  return true
end

-- Raises an error if the record is damaged.
local function read(record)
  local _, $Record = take(record, #$Record)
  assert(STATE_SETS[state] and is_id(id) and all_are(is_name, queue, lane, task) and none_or_all_are(is_name, worker)
    and all_are(is_whole_number, version, attempt, priority, rank, max_attempts, created_at, run_at, crashes, releases)
    and none_or_all_are(is_text, result, reason, progress)
    and none_or_all_are(is_whole_number, finished_at, result_checksum, updated_at, started_at, expires_at))
  return $Record{}
end

-- The job of a record, nothing if it is missing or damaged: a bad record must not stop the others.
local function job_of(record)
  local is_whole, j = pcall(read, record)
  return is_whole and j or nil
end

local function encode_job(j)
  return pack($Record(j))
end

-- A payload record. For a damaged one: an empty payload that matches no checksum.
local function read_payload(payload_record)
  local is_whole, _, $Payload = pcall(take, payload_record, #$Payload)
  if is_whole and is_text(payload) and all_are(is_whole_number, checksum, mark)
    and none_or_all_are(is_text, options, tags, metadata, unique_key) then
    return $Payload{}
  end
  return {payload = '', checksum = -1, mark = 0}
end

-- A stored JSON object or list; nothing if it is damaged.
local function from_json(stored)
  local is_whole, found = pcall(cjson.decode, stored)
  return is_whole and type(found) == 'table' and found or {}
end

-- The stored tags of a job; none if they are damaged.
local function tags_of(stored)
  local tags = stored and from_json(stored) or {}
  for i = 1, #tags do
    if not is_text(tags[i]) then return {} end
  end
  return tags
end

-- As many of the first values of a record, after `from`, as can be read.
local function salvage(record, n, from)
  for count = n, 1, -1 do
    local values = {pcall(take, record, count, from)}
    if values[1] then return {unpack(values, 3, count + 2)} end
  end
  return {}
end

-- The records of these jobs, false for missing ones.
local function records_of(members, n)
  return read_in_parts('HMGET', JOBS, members, n)
end

-- The limits (gates) of a lane, each a letter of its kind, a colon and a name. A damaged lane needs a capability that
-- no worker has.
local known_gates, damaged_lanes = {[''] = {}}, {}
local function gates_of(lane)
  local gates = known_gates[lane]
  if not gates then
    local is_whole, found = pcall(cjson.decode, lane)
    gates = is_whole and type(found) == 'table' and found or {}
    for i = 1, #gates do is_whole = is_whole and is_text(gates[i]) and gates[i]:find('^[cnrt]:') end
    if not is_whole or #gates == 0 then gates, damaged_lanes[lane] = {'n:' .. lane}, true end
    known_gates[lane] = gates
  end
  return gates
end

-- Whether a job can never start because the limits of its lane are unreadable.
local function has_damaged_lane(j)
  gates_of(j.lane)
  return damaged_lanes[j.lane] and not FINAL[j.state] and j.state ~= 'running'
end

-- Calls `act` (add or drop) with the sets of a lane's concurrency limits.
local function for_each_concurrency_set(lane, act, ...)
  for _, gate in ipairs(gates_of(lane)) do
    if gate:sub(1, 1) == 'c' then act(key_of('held', gate), ...) end
  end
end

-- Calls `act` (add or drop) with the sets of a pending job in a lane.
local function for_each_lane_set(queue, lane, act, ...)
  act(key_of('in:laned', queue), ...)
  act(P .. ':lane:' .. queue .. ':' .. lane, ...)
  if not next(touched) then deferred[#deferred + 1] = update_lanes end
  touched[queue] = touched[queue] or {}
  touched[queue][lane] = true
end

local function leave(member, j)
  local state = j.state
  if state == 'pending' and j.lane ~= '' then
    for_each_lane_set(j.queue, j.lane, drop, member)
  else
    drop(state_key(state, j.queue), member)
  end
  if state == 'running' then
    drop(LEASES, member)
    for_each_concurrency_set(j.lane, drop, member)
    return
  end
  drop(key_of('state', state), member)
  if HAS_RUN[state] and j.worker then drop(key_of('worker', j.worker), member) end
  if not FINAL[state] then
    if DELAYED[state] then drop(DUE, member) end
    if j.expires_at then drop(EXPIRING, member) end
  end
end

local function enter(member, j, lease_until)
  local state, score = j.state, nil
  if state == 'running' then
    score = text(j.started_at)
    add(LEASES, text(lease_until), member)
    for_each_concurrency_set(j.lane, add, member, member)
  elseif FINAL[state] then
    score = text(j.finished_at or 0)
  else
    if state == 'pending' then
      score = sort_score(j.priority, j.rank)
    elseif state == 'waiting' then
      score = member
    else
      score = text(j.run_at)
      add(DUE, score, member)
    end
    -- A job that waits for others after its own run has started in time.
    if j.expires_at and not j.finished_at then add(EXPIRING, text(j.expires_at), member) end
  end
  if HAS_RUN[state] and j.worker then add(key_of('worker', j.worker), member, member) end
  if state == 'pending' and j.lane ~= '' then
    for_each_lane_set(j.queue, j.lane, add, score, member)
  else
    add(state_key(state, j.queue), score, member)
  end
  if state ~= 'running' then add(key_of('state', state), member, member) end
end

-- Leave the old state, change the job by `change`, and enter the new one; its version increases by one.
local function move(member, j, at, change)
  leave(member, j)
  change(j)
  $Version(j) = $next_version(j.version, at)
  enter(member, j)
  put_record(member, encode_job(j))
end

-- Add the event of a history entry. To be called before the job moves.
local function add_history_event(j, at, event, target, detail, finished_at, error_type, error_message, run_at)
  encoded_groups[#encoded_groups + 1] = '["history",' .. json(at) .. ',' .. json(j.queue) .. ',' .. json(j.task) .. ','
    .. json(j.worker) .. ',["' .. j.id .. '"],[' .. json(j.attempt) .. '],[],[],[],[{"event":' .. json(event)
    .. ',"source":' .. json(j.state) .. ',"target":' .. json(target) .. ',"started_at":' .. json(j.started_at)
    .. ',"finished_at":' .. json(finished_at) .. ',"run_at":' .. json(run_at or j.run_at)
    .. ',"detail":' .. json(detail) .. ',"error_type":' .. json(error_type)
    .. ',"error_message":' .. json(error_message) .. '}]]'
  encoded_groups.at = at
end

-- Add an entry to a list of the job's: a HistoryRow, or a LogLine.
local function append_to(name, member, entry)
  local n = #appends
  appends[n + 1], appends[n + 2] = P .. ':' .. name .. ':' .. member, entry
end

local function append_history(member, entry)
  append_to('history', member, $HistoryRow:head .. pack($HistoryRow(entry)))
end

-- A history entry of a job that does not move, and keeps its version.
local function append_remark(member, j, at, event, detail)
  append_history(member, {
    at = at, event = event, source = j.state, target = j.state, version = j.version, attempt = j.attempt,
    worker = j.worker, started_at = j.started_at, detail = detail,
  })
end

local function record_history(member, j, at, event, target, detail, finished_at, error_type, error_message,
  error_traceback, run_at)
  add_history_event(j, at, event, target, detail, finished_at, error_type, error_message, run_at)
  append_history(member, {
    at = at, event = event, source = j.state, target = target, version = j.version + 1, attempt = j.attempt,
    worker = j.worker, started_at = j.started_at, finished_at = finished_at, detail = detail, error_type = error_type,
    error_message = error_message, error_traceback = error_traceback,
  })
end

-- The rank for a new time: a job of a LIFO queue keeps its order.
local function rank_at(j, run_at)
  return j.rank < 0 and -run_at or run_at
end

-- The key of a job's steps.
local function steps_key(member)
  return P .. ':steps:' .. member
end

local function step_field(kind, number, name)
  return kind .. ':' .. text(number) .. ':' .. name
end

-- Publish each message once. The permission is checked when the store is opened; an error here would cut a commit in
-- two.
local function ring(messages)
  for message in pairs(messages) do redis.pcall('PUBLISH', P .. ':bell', message) end
end

-- Whether there is any rule, or a job in a lane. Then the end of any job may let another worker's job start.
local function rules_exist()
  return call('EXISTS', QUEUES_WITH_RULES, QUEUES_WITH_LANES, TASKS) > 0
end

-- The range of job numbers for each hour, so that a search by time need not read all jobs. The upper bound is rounded
-- up, so that it is not written again for every job.
local ROUND = 1000
local function write_hour(hour, first, last)
  local name = text(hour)
  local known = call('HGET', P .. ':hours', name)
  local lowest, highest = (known or last .. ' ' .. last):match('^(%d+) (%d+)$')
  if not lowest then lowest, highest = '000000000000', '000000000000' end -- damaged: the range is unknown
  if last > highest then highest = string.format('%012.0f', math.ceil(last / ROUND) * ROUND) end
  local range = (first < lowest and first or lowest) .. ' ' .. highest
  if range ~= known then call('HSET', P .. ':hours', name, range) end
end

-- A list of records as one MessagePack array.
local function as_array(parts, n)
  return '\221' .. struct.pack('>I4', n) .. table.concat(parts, '', 1, n)
end
