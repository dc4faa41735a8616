-- Submitted jobs: one by one, or as a batch that is an array of NewJob.

local PENDING, STATE_PENDING = 'pending', named('state', 'pending')
local known_queues, tells, has_orders = {}, true, call('EXISTS', TASKS) == 1
local coming = {} -- queue -> how many more jobs it will have; negative if they go elsewhere

-- Whether this very call stored the job of this number before, and its answer was lost.
local function is_own(member, mark)
  local body = call('HGET', PAYLOADS, member)
  return body and select(6, body_of(body)) == mark
end

-- The parts of a record and a body that equal those of the job before, as mostly in a batch: packing a value costs more
-- than comparing it.
local last = {}
local before_id, behind_id, behind_payload

local function submit(member, mark, id, task, queue, state, priority, rank, payload, checksum, created_at, run_at,
  max_attempts, expires_at, options, tags, metadata, version, unique_key, lane, flow)
  if has_orders then lane = rare_inserts().lane_for(task, lane) end
  local l = last
  if l.state ~= state or l.version ~= version or l.queue ~= queue or l.lane ~= lane or l.expires_at ~= expires_at then
    l.state, l.version, l.queue, l.lane, l.expires_at = state, version, queue, lane, expires_at
    before_id = pack(state, nil, nil, nil, nil, version, 0, nil, nil, nil, queue, lane, expires_at)
  end
  if l.task ~= task or l.priority ~= priority or l.rank ~= rank or l.max_attempts ~= max_attempts
    or l.created_at ~= created_at or l.run_at ~= run_at then
    l.task, l.priority, l.rank, l.max_attempts, l.created_at, l.run_at =
      task, priority, rank, max_attempts, created_at, run_at
    behind_id = pack(task, priority, rank, max_attempts, created_at, run_at, 0, 0)
  end
  if l.mark ~= mark or l.options ~= options or l.tags ~= tags or l.metadata ~= metadata or l.unique_key ~= unique_key then
    l.mark, l.options, l.tags, l.metadata, l.unique_key = mark, options, tags, metadata, unique_key
    behind_payload = pack(options, tags, metadata, mark, unique_key)
  end
  bear(member, id, task, queue, tags, created_at, before_id .. pack(id) .. behind_id,
    pack(payload, checksum) .. behind_payload)
  if state == PENDING and lane == '' then
    add(named('in:pending', queue), standing(priority, rank), member)
    add(STATE_PENDING, member, member)
    if expires_at then add(EXPIRING, text(expires_at), member) end
  else
    rare_inserts().enter(member, {
      state = state, queue = queue, lane = lane, priority = priority, rank = rank, run_at = run_at,
      expires_at = expires_at,
    })
  end
  if tells then
    local kind, data = 'job.enqueued', nil
    if state == 'scheduled' then
      kind, data = 'job.scheduled', '{"run_at":' .. text(run_at) .. '}'
    elseif state == 'waiting' then
      kind, data = 'job.enqueued', '{"waits":true}'
    end
    tell_event(kind, created_at, queue, task, id, data)
  end
  if unique_key then rare_inserts().add_key(member, unique_key) end
  if flow then join_flow(member, flow) end
end

-- Every job of the batch but those to skip. Its last value, whether it has dependencies, is ignored here.
local function submit_all(batch, count, skip, next_number, mark)
  local offset = count < 16 and 1 or count < 65536 and 3 or 5
  for i = 1, count do
    local id, task, queue, state, priority, rank, payload, checksum, created_at, run_at, max_attempts, expires_at,
      options, tags, metadata, version, unique_key, lane, flow
    offset, id, task, queue, state, priority, rank, payload, checksum, created_at, run_at, max_attempts, expires_at,
      options, tags, metadata, version, unique_key, lane, flow = take(batch, 20, offset + 3)
    if not skip[i] then
      submit(next_number(), mark, id, task, queue, state, priority, rank, payload, checksum, created_at, run_at,
        max_attempts, expires_at, options, tags, metadata, version, unique_key, lane, flow)
      coming[queue] = (coming[queue] or 0) + 1
    end
  end
end

-- A queue without room for the new jobs: its name, its limit, how many wait in it and how many come. Or nothing.
local function full_queue()
  for queue, more in pairs(coming) do
    local known = call('HGET', QUEUES, queue)
    known_queues[queue] = known
    local behind = known and known:find(' ', 1, true)
    local limit = behind and more > 0 and tonumber(from_json(known:sub(behind)).max_length)
    if limit then
      local waiting = call('ZCARD', named('in:laned', queue))
      for _, state in ipairs({'scheduled', 'waiting', 'pending', 'retrying'}) do
        waiting = waiting + call('ZCARD', named('in:' .. state, queue))
      end
      if waiting + more > limit then return {'full', queue, limit, waiting, more} end
    end
  end
end

-- Create the queues of the new jobs, and wake workers for them.
local function announce(now, messages)
  for queue in pairs(coming) do
    if not known_queues[queue] then call('HSETNX', QUEUES, queue, now) end
    messages['work:' .. queue] = true
  end
  ring(messages)
end
