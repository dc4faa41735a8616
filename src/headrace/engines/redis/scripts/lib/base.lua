-- What every script begins with: the keys, and the steps by which a job moves from one place to another.
--
-- A script gets the installation's tag, "{prefix}", as its only key; every key is that tag and a name, so that all are
-- in one slot of a cluster. The tag itself is never a key: while a cluster moves our slot it refuses every script,
-- rather than run it on half of the keys.
--
-- A script decides first and writes at the end, because nothing is rolled back: `guard` makes
-- the server refuse at the start whatever it would refuse, and `flush` does the writing. The time is always given.
--
-- Texts are stored as they came. Records are MessagePack, a value for each field and no header around them (absent
-- is nil), which `take` and `pack` turn into Lua's values and back. A job's number, its `seq`, is written with twelve
-- digits, so that jobs of one score are in the order of their numbers.
--
--   {p}:schema         text: the version of this layout
--   {p}:store          text: a random name of this store, the same for all who use it
--   {p}:seq            the last number given to a job
--   {p}:bell           channel: "work:<queue>", "done", "orders", "times"; "!<sender> <topic>" is rung by hand
--   {p}:swept          text: what the last sweep of finished jobs did, in JSON
--   {p}:notice         hash kind, other, at: hangs at the door while the jobs are carried over, and afterwards
--
--   {p}:ids            hash: a job's id -> its number
--   {p}:jobs           hash: number -> state, finished_at, result, result_checksum, reason, version, attempt, progress,
--                      started_at, worker, queue, lane, expires_at, id, task, priority, rank, max_attempts,
--                      created_at, run_at, crashes, releases. A success changes the first six, a claim the first
--                      ten: what is behind them is copied as it is. The end of a lease is in {p}:leases alone.
--   {p}:bodies         hash: number -> payload, checksum, options, tags, metadata, mark, unique_key: what only a
--                      replacement changes. By the mark, the random number of one insert, a repeated insert knows its
--                      own jobs again.
--   {p}:h:<number>     list: what was filed about the job, each the array of a Filing
--   {p}:l:<number>     list: what the job logged, each the array of a LogLine
--   {p}:steps:<number> hash: what the job remembers, by kind, number and name, see `name_of_step`: twelve digits that tell
--                      the order, and the array of a Step
--   {p}:spans          hash: hour of created_at -> the lowest number of its jobs, and one that none of them is above
--
--   Where a job stands, sorted sets of numbers:
--   {p}:in:<state>:<queue>   by `standing` if pending, run_at if scheduled or retrying, seq if waiting, started_at if
--                      running, finished_at if finished; of those pending only the ones that wait in no lane
--   {p}:in:laned:<queue>     by `standing`: pending, and in a lane
--   {p}:lane:<queue>:<lane>  the same of one lane
--   {p}:held:<gate>          by number: running, and through this gate, if it is one that only so many may hold
--   {p}:due            by run_at: scheduled and retrying
--   {p}:leases         by the end of the lease: running
--   {p}:lapsing        by expires_at: not started and with an end
--
--   By what a job is found, sorted sets by number:
--   {p}:queue:<queue>, {p}:task:<task>, {p}:tag:<tag>
--   {p}:state:<state>        of every state but running: what runs is never much, and found by {p}:leases
--   {p}:worker:<worker>      those that finished with this worker, or whose run is over and that wait for others
--   {p}:flow:<flow>          those of this flow
--
--   Jobs that have a key, sorted sets of numbers; see `unique_keys`:
--   {p}:unique:<key>         by number: all that are not in one of the others
--   {p}:past:<state>:<key>   by finished_at: those that were found to be finished
--
--   Jobs that wait for jobs; see `dependencies`. A policy is its first letter:
--   {p}:kin            set of numbers: all parents, and children that were there before a bond of theirs. The end of
--                      any other job, and its success, concerns nobody else
--   {p}:parents:<number>     hash: the number of each of its parents -> policy
--   {p}:children:<number>    hash: the number of each of its children -> policy
--   {p}:blocks:<number>      set of numbers: those of its parents that it still waits for
--   {p}:flows          hash: id of a flow -> the array of a FlowRow
--   {p}:recent         sorted set of these ids, all of score 0: by id
--   {p}:origins        hash: number of a job that is of a flow -> the flow's id
--
--   {p}:queues         hash: name -> created_at and, if it has any, a space and its QueueRules in JSON
--   {p}:paused         set of names
--   {p}:ruled          set of names of queues that have rules
--   {p}:laned          set of names of queues where jobs wait in lanes
--   {p}:lanes:<queue>  hash: each of these lanes -> the level of its first job, see `level_of`
--   {p}:turns:<queue>  sorted set of level and lane, written together, all of score 0: by level and by name
--   {p}:tasks          hash: name of a task that has rules -> its TaskRules in JSON
--   {p}:declared, {p}:ordered   hashes: kind ("task" or "queue"), a colon and a name -> its Terms in JSON, as code
--                      declares and as an operator orders them
--   {p}:papers:<kind>  hash: key of a paper -> its version, a space and its value
--   {p}:shelf:<kind>   sorted set of these keys, all of score 0: by key
--   {p}:shelves        sorted set of the kinds of which there is any paper, all of score 0: by name
--   {p}:buckets        sorted set of rates, each with what has it, by the time in microseconds when it is rested: when
--                      as many may start at once as ever
--   {p}:workers        hash: id -> WorkerRow
--   {p}:letters        hash: id of a dead letter -> the array of a DeadRow
--   {p}:dead           sorted set of these ids, all of score 0: by id, which begins with the time of the entry
--   {p}:unresolved     hash: id of a job -> its pending dead letter
--   {p}:latest         hash: id of a job -> its newest dead letter
--   {p}:desk:<status>  sorted set of ids of dead letters, all of score 0: those of this status
--   {p}:desk:<status>:<kind>:<value>   those of them with this task, queue, reason, fingerprint or number of requeues
--   {p}:reasons, {p}:fingerprints      sets of what dead letters have
--   {p}:requeues       hash: status, a colon and a reason -> the sum of the requeues of these
--
--   {p}:events         stream: what has happened, an entry for each commit: page, size, at and, if it is not true of all
--                      its jobs, of which it is (`only`); see core/events/log.py
--   {p}:told           how many events are in it
--
--   {p}:schedules      hash: id -> the array of a ScheduleRow
--   {p}:times          sorted set of these ids by due_at: those that will fire
--   {p}:occurrences:<schedule>   list: what became of its times, the newest first, each the array of an Occurrence

local P = KEYS[1]
local call, pack, take = redis.call, cmsgpack.pack, cmsgpack.unpack_limit
local IDS, JOBS, BODIES = P .. ':ids', P .. ':jobs', P .. ':bodies'
local DUE, LEASES, LAPSING = P .. ':due', P .. ':leases', P .. ':lapsing'
local QUEUES, RULED, LANED, TASKS = P .. ':queues', P .. ':ruled', P .. ':laned', P .. ':tasks'
local KIN, ORIGINS = P .. ':kin', P .. ':origins'

local PUT_OFF = {scheduled = true, retrying = true}
local FINAL = {completed = true, failed = true, cancelled = true}
local HAS_RUN = {completed = true, failed = true, cancelled = true, waiting = true} -- if it has a worker, that is

local AT_ONCE = 4000 -- arguments of one call; Lua's stack has room for some 8000

-- Refuse now what the server would refuse later: out of memory, a replica, a disk error. The call changes
-- nothing: no key of this name is ever there.
local function guard()
  call('SETRANGE', P .. ':room', '0', '')
end

-- The same for what has to go on when memory is out, since only finished jobs can leave: a script whose first write
-- takes something away is not refused for want of memory.
local function guard_without_memory()
  call('DEL', P .. ':room')
end

-- What hangs at the door, as an answer to whoever would change something here: "moved" or "arriving", and the address of
-- the other store.
local function notice()
  local door = call('HMGET', P .. ':notice', 'kind', 'other')
  return door[1] and door
end

-- The same of a store whose jobs live elsewhere.
local function moved_to()
  local door = call('HMGET', P .. ':notice', 'kind', 'other')
  return door[1] == 'moved' and door
end

-- Whether a notice says that jobs arrive from there; from nowhere in particular they may always come.
local function still_arriving(origin)
  local door = notice()
  return origin == '' or (door and door[1] == 'arriving' and door[2] == origin)
end

-- The command with a list of any length, in parts; `n` is the list's length, as lists may end in nil.
local function in_parts(command, key, list, n)
  for first = 1, n, AT_ONCE do
    call(command, key, unpack(list, first, math.min(first + AT_ONCE - 1, n)))
  end
end

-- The same for a command that answers with a list, false for what is not there.
local function ask_in_parts(command, key, list, n)
  if n == 0 then return {} end
  if n <= AT_ONCE then return call(command, key, unpack(list, 1, n)) end
  local answers = {}
  for first = 1, n, AT_ONCE do
    local part = call(command, key, unpack(list, first, math.min(first + AT_ONCE - 1, n)))
    for i = 1, #part do answers[first + i - 1] = part[i] end
  end
  return answers
end

-- What is to be written, collected by key: a call for each job and key would cost more than all the rest.
local adds, drops, filed, deferred = {}, {}, {}, {}
local kept, kept_count = {}, 0
local touched = {} -- queue -> lane -> true: lanes that may have become empty, or may have been

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

local function keep(member, record)
  kept[kept_count + 1], kept[kept_count + 2] = member, record
  kept_count = kept_count + 2
end

-- The order of claims as one number that a double holds exactly: 201 priorities, high first, and in each 45 bits for
-- the rank. Times after the year 2527 count as that year.
local RANKS, FURTHEST = 2 ^ 45, 2 ^ 44 - 1

-- A priority as three digits that sort with the highest first: "000" is 100, "200" is -100.
local function level_of(score)
  return string.format('%03.0f', math.floor((tonumber(score) + RANKS / 2) / RANKS))
end

-- A lane is known as long as jobs wait in it, by how urgent the first of them is; and its queue as one with lanes.
local function keep_lanes()
  for queue, lanes in pairs(touched) do
    local levels, turns = P .. ':lanes:' .. queue, P .. ':turns:' .. queue
    for lane in pairs(lanes) do
      local known = call('HGET', levels, lane)
      local first = call('ZRANGE', P .. ':lane:' .. queue .. ':' .. lane, 0, 0, 'WITHSCORES')[2]
      local level = first and level_of(first)
      if known and known ~= level then call('ZREM', turns, known .. lane) end
      if level then
        call('ZADD', turns, '0', level .. lane) -- also if it is known: without a turn, the lane stands still
        if known ~= level then call('HSET', levels, lane, level) end
      else
        call('HDEL', levels, lane)
      end
    end
    call(call('EXISTS', turns) == 1 and 'SADD' or 'SREM', LANED, queue)
  end
  touched = {}
end

-- A whole number as text. The server would write a number with 17 digits of precision, which takes longer than a
-- command that only asks; so commands are given texts alone, and jobs of one batch have many numbers in common.
local texts = {}
local function text(number)
  local known = texts[number]
  if not known then
    known = string.format('%.0f', number)
    texts[number] = known
  end
  return known
end

-- A text or a number in JSON. cjson is given texts only: it rounds numbers to 14 digits.
local function json(value)
  if value == nil then return 'null' end
  return type(value) == 'number' and text(value) or cjson.encode(value)
end

-- Events. What is told with this commit: groups in JSON, and jobs of which the same is told, by type, queue and task and
-- as they were met. The order is that of the other engines: letters that are dealt with, what was filed, all else.
local groups, alike, latest = {}, {}, nil
-- Who follows events hears whatever rings: a script that does so anyway need not ring for its events as well.
local rings_anyway = false

local function store_page(page, size, at, only)
  call('XADD', P .. ':events', '*', 'page', page, 'size', size, 'at', at, 'only', only or '')
  -- What counts is damaged if it can't be counted up: it begins anew.
  if type(redis.pcall('INCRBY', P .. ':told', size)) == 'table' then call('SET', P .. ':told', size) end
  if not rings_anyway then redis.pcall('PUBLISH', P .. ':bell', 'events') end
end

local function tell_event(kind, at, queue, task, id, data)
  local group = latest
  if not group or group.task ~= task or group.queue ~= queue or group.kind ~= kind then
    local name = kind .. '\n' .. queue .. '\n' .. task -- a name has no line breaks
    group = alike[name]
    if not group then
      group = {kind = kind, at = at, queue = queue, task = task, n = 0}
      alike[name], alike[#alike + 1] = group, group
    end
    latest = group
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
local function store_told()
  local size, at, resolved = #groups, 0, 0
  for _, group in ipairs(alike) do
    local n, data = group.n, group.data or {}
    for i = #data + 1, group.data and n or 0 do data[i] = '{}' end
    local told = '["' .. group.kind .. '",' .. json(group.at) .. ',' .. json(group.queue) .. ','
      .. json(group.task) .. ',null,["' .. table.concat(group, '","', 1, n) .. '"],[],[],[],[],['
      .. table.concat(data, ',') .. ']]'
    if group.kind == 'dead.resolved' then resolved = resolved + 1 end
    table.insert(groups, group.kind == 'dead.resolved' and resolved or #groups + 1, told)
    size, at = size + n, math.max(at, group.at)
  end
  store_page('[' .. table.concat(groups, ',') .. ']', text(size), text(math.max(at, groups.at or 0)))
  groups, alike, latest = {}, {}, nil
end

local function flush()
  in_parts('HSET', JOBS, kept, kept_count)
  for key, list in pairs(drops) do in_parts('ZREM', key, list, list.n) end
  for key, list in pairs(adds) do in_parts('ZADD', key, list, list.n) end
  for i = 1, #filed, 2 do call('RPUSH', filed[i], filed[i + 1]) end
  for i = 1, #deferred do deferred[i]() end
  if #groups > 0 or next(alike) then store_told() end
  adds, drops, filed, deferred, kept, kept_count = {}, {}, {}, {}, {}, 0
end

-- The key of this kind and name. They are few, and putting a text together costs more than finding it again.
local keys = {}
local function named(kind, name)
  local of_kind = keys[kind]
  local key = of_kind and of_kind[name]
  if not key then
    key = P .. ':' .. kind .. ':' .. name
    if of_kind then of_kind[name] = key else keys[kind] = {[name] = key} end
  end
  return key
end

local PLACES = {
  scheduled = 'in:scheduled', waiting = 'in:waiting', pending = 'in:pending', running = 'in:running',
  retrying = 'in:retrying', completed = 'in:completed', failed = 'in:failed', cancelled = 'in:cancelled',
}
local function place(state, queue)
  return named(PLACES[state], queue)
end

local function standing(priority, rank)
  return text((100 - priority) * RANKS + math.max(-FURTHEST, math.min(rank, FURTHEST)))
end

local function is_text(value)
  return type(value) == 'string'
end

-- Whether a text is UTF-8. Nearly every name has no more than ASCII.
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

-- What is no UTF-8 comes back from Python as another name, by which nothing is found.
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

-- Whether each of these is there and as it should be, or is absent where it may be.
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

-- An error if the record is damaged.
local function read(record)
  local _, state, finished_at, result, result_checksum, reason, version, attempt, progress, started_at, worker, queue,
    lane, expires_at, id, task, priority, rank, max_attempts, created_at, run_at, crashes, releases = take(record, 22)
  assert(PLACES[state] and is_id(id) and all_are(is_name, queue, lane, task) and none_or_all_are(is_name, worker)
    and all_are(is_whole_number, version, attempt, priority, rank, max_attempts, created_at, run_at, crashes, releases)
    and none_or_all_are(is_text, result, reason, progress)
    and none_or_all_are(is_whole_number, finished_at, result_checksum, started_at, expires_at))
  return {
    state = state, finished_at = finished_at, result = result, result_checksum = result_checksum, reason = reason,
    version = version, attempt = attempt, progress = progress, started_at = started_at, worker = worker,
    queue = queue, lane = lane, expires_at = expires_at, id = id, task = task, priority = priority, rank = rank,
    max_attempts = max_attempts, created_at = created_at, run_at = run_at, crashes = crashes, releases = releases,
  }
end

-- The job of a record, nothing if it is gone or damaged: a bad one must not keep the others from their turn.
local function job_of(record)
  local is_whole, j = pcall(read, record)
  return is_whole and j or nil
end

local function written(j)
  return pack(j.state, j.finished_at, j.result, j.result_checksum, j.reason, j.version, j.attempt, j.progress,
    j.started_at, j.worker, j.queue, j.lane, j.expires_at, j.id, j.task, j.priority, j.rank, j.max_attempts,
    j.created_at, j.run_at, j.crashes, j.releases)
end

-- What a body has: payload, checksum, options, tags, metadata, mark, unique_key. Of one that is damaged, nothing: a
-- payload that no checksum fits.
local function body_of(body)
  local is_whole, _, payload, checksum, options, tags, metadata, mark, unique_key = pcall(take, body, 7)
  if is_whole and is_text(payload) and all_are(is_whole_number, checksum, mark)
    and none_or_all_are(is_text, options, tags, metadata, unique_key) then
    return payload, checksum, options, tags, metadata, mark, unique_key
  end
  return '', -1, nil, nil, nil, 0, nil
end

-- What is stored in JSON, and has fields or items; nothing if it is damaged.
local function from_json(stored)
  local is_whole, found = pcall(cjson.decode, stored)
  return is_whole and type(found) == 'table' and found or {}
end

-- The tags of a job as they are stored; none if they are damaged.
local function tags_of(stored)
  local tags = stored and from_json(stored) or {}
  for i = 1, #tags do
    if not is_text(tags[i]) then return {} end
  end
  return tags
end

-- As many of the first values of a record as can be read, behind `from`.
local function salvage(record, n, from)
  for count = n, 1, -1 do
    local values = {pcall(take, record, count, from)}
    if values[1] then return {unpack(values, 3, count + 2)} end
  end
  return {}
end

-- The records of these jobs, false for those that are gone.
local function records_of(members, n)
  return ask_in_parts('HMGET', JOBS, members, n)
end

-- The gates of a lane, each a letter of its kind, a colon and a name. One that is damaged needs what no worker has.
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

-- Whether a job can never start since nobody can tell the gates of its lane.
local function is_shut_out(j)
  gates_of(j.lane)
  return damaged_lanes[j.lane] and not FINAL[j.state] and j.state ~= 'running'
end

-- Calls `act` (add or drop) with the sets of those gates of a lane that only so many may hold.
local function for_each_hold(lane, act, ...)
  for _, gate in ipairs(gates_of(lane)) do
    if gate:sub(1, 1) == 'c' then act(named('held', gate), ...) end
  end
end

-- The places of a pending job that waits in a lane.
local function for_lane(queue, lane, act, ...)
  act(named('in:laned', queue), ...)
  act(P .. ':lane:' .. queue .. ':' .. lane, ...)
  if not next(touched) then deferred[#deferred + 1] = keep_lanes end
  touched[queue] = touched[queue] or {}
  touched[queue][lane] = true
end

local function leave(member, j)
  local state = j.state
  if state == 'pending' and j.lane ~= '' then
    for_lane(j.queue, j.lane, drop, member)
  else
    drop(place(state, j.queue), member)
  end
  if state == 'running' then
    drop(LEASES, member)
    for_each_hold(j.lane, drop, member)
    return
  end
  drop(named('state', state), member)
  if HAS_RUN[state] and j.worker then drop(named('worker', j.worker), member) end
  if not FINAL[state] then
    if PUT_OFF[state] then drop(DUE, member) end
    if j.expires_at then drop(LAPSING, member) end
  end
end

local function enter(member, j, lease_until)
  local state, score = j.state, nil
  if state == 'running' then
    score = text(j.started_at)
    add(LEASES, text(lease_until), member)
    for_each_hold(j.lane, add, member, member)
  elseif FINAL[state] then
    score = text(j.finished_at or 0)
  else
    if state == 'pending' then
      score = standing(j.priority, j.rank)
    elseif state == 'waiting' then
      score = member
    else
      score = text(j.run_at)
      add(DUE, score, member)
    end
    -- What waits for others after its own run has started in time.
    if j.expires_at and not j.finished_at then add(LAPSING, text(j.expires_at), member) end
  end
  if HAS_RUN[state] and j.worker then add(named('worker', j.worker), member, member) end
  if state == 'pending' and j.lane ~= '' then
    for_lane(j.queue, j.lane, add, score, member)
  else
    add(place(state, j.queue), score, member)
  end
  if state ~= 'running' then add(named('state', state), member, member) end
end

-- Leave, change by `change`, and enter what it says; its version is one higher afterwards.
local function move(member, j, change)
  leave(member, j)
  change(j)
  j.version = j.version + 1
  enter(member, j)
  keep(member, written(j))
end

-- File, while the record still tells where the job comes from, that it is about to move.
local function tell_filed(j, at, event, target, detail, finished_at, error_type, error_message, run_at)
  groups[#groups + 1] = '["filed",' .. json(at) .. ',' .. json(j.queue) .. ',' .. json(j.task) .. ',' .. json(j.worker)
    .. ',["' .. j.id .. '"],[' .. json(j.attempt) .. '],[],[],[],[{"event":' .. json(event) .. ',"source":'
    .. json(j.state) .. ',"target":' .. json(target) .. ',"started_at":' .. json(j.started_at) .. ',"finished_at":'
    .. json(finished_at) .. ',"run_at":' .. json(run_at or j.run_at) .. ',"detail":' .. json(detail)
    .. ',"error_type":' .. json(error_type) .. ',"error_message":' .. json(error_message) .. '}]]'
  groups.at = at
end

local function file(member, j, at, event, target, detail, finished_at, error_type, error_message, error_traceback,
  run_at)
  tell_filed(j, at, event, target, detail, finished_at, error_type, error_message, run_at)
  local n = #filed
  filed[n + 1] = P .. ':h:' .. member
  filed[n + 2] = '\157' .. pack(at, event, j.state, target, j.version + 1, j.attempt, j.worker, j.started_at,
    finished_at, detail, error_type, error_message, error_traceback)
end

-- The rank that fits a new time: a job of a LIFO queue stays one.
local function rank_at(j, run_at)
  return j.rank < 0 and -run_at or run_at
end

-- Where a job remembers its steps, and under which name each.
local function memory(member)
  return P .. ':steps:' .. member
end

local function name_of_step(kind, number, name)
  return kind .. ':' .. text(number) .. ':' .. name
end

-- Tell listeners, once for each message. Who may not publish is found out when the store is opened; an error here
-- would cut a commit in two.
local function ring(messages)
  for message in pairs(messages) do redis.pcall('PUBLISH', P .. ':bell', message) end
end

-- Whether anybody has made a rule, or a job waits in a lane. Then whatever ends may let somebody else's job begin.
local function is_minded()
  return call('EXISTS', RULED, LANED, TASKS) > 0
end

-- A list of records as one MessagePack array.
local function as_array(parts, n)
  return '\221' .. struct.pack('>I4', n) .. table.concat(parts, '', 1, n)
end
