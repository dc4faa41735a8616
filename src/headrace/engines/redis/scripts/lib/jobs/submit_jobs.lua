-- Submitted jobs: one by one, or as a batch that is an array of NewJob.

local PENDING, STATE_PENDING = 'pending', key_of('state', 'pending')
local known_queues, emits_events, has_task_rules = {}, true, call('EXISTS', TASKS) == 1
local queue_growth = {} -- queue -> how many more jobs it will have; negative if they go to another queue

local function grow_queue(queue, more)
  queue_growth[queue] = (queue_growth[queue] or 0) + more
end

-- Whether this very call stored the job of this number before, and its answer was lost.
local function is_own_insert(member, mark)
  local payload_record = call('HGET', PAYLOADS, member)
  return payload_record and read_payload(payload_record).mark == mark
end

-- The parts of a record and a payload record that equal those of the job before, as mostly in a batch: packing a value
-- costs more than comparing it.
local last = {}
local before_id, behind_id, behind_payload

-- What no new job has.
local $Record[finished_at..worker]
local crashes, releases = 0, 0
attempt = 0

local function submit(member, mark, $NewJob)
  if has_task_rules then lane = rare_inserts().lane_for(task, lane) end
  local l = last
  if l.state ~= state or l.version ~= version or l.queue ~= queue or l.lane ~= lane or l.expires_at ~= expires_at then
    l.state, l.version, l.queue, l.lane, l.expires_at = state, version, queue, lane, expires_at
    before_id = pack($Record[..expires_at])
  end
  if $Record[task..run_at]:differs(l) then
    $Record[task..run_at](l) = $Record[task..run_at]
    behind_id = pack($Record[task..])
  end
  if $Payload[options..]:differs(l) then
    $Payload[options..](l) = $Payload[options..]
    behind_payload = pack($Payload[options..])
  end
  write_new_job(member, id, task, queue, tags, created_at, before_id .. pack(id) .. behind_id,
    pack(payload, checksum) .. behind_payload)
  if state == PENDING and lane == '' then
    add(key_of('in:pending', queue), sort_score(priority, rank), member)
    add(STATE_PENDING, member, member)
    if expires_at then add(EXPIRING, text(expires_at), member) end
  else
    rare_inserts().enter(member, {
      state = state, queue = queue, lane = lane, priority = priority, rank = rank, run_at = run_at,
      expires_at = expires_at,
    })
  end
  if emits_events then
    local kind, data = 'job.enqueued', nil
    if state == 'scheduled' then
      kind, data = 'job.scheduled', '{"run_at":' .. text(run_at) .. '}'
    elseif state == 'waiting' then
      kind, data = 'job.enqueued', '{"waits":true}'
    end
    add_event(kind, created_at, queue, task, id, data)
  end
  if unique_key then rare_inserts().add_key(member, unique_key) end
  if flow then join_flow(member, flow) end
end

-- Every job of the batch but those to skip. Its last value, whether it has dependencies, is ignored here.
local function submit_all(batch, count, skip, next_number, mark)
  local offset = count < 16 and 1 or count < 65536 and 3 or 5
  for i = 1, count do
    local $NewJob
    offset, $NewJob = take(batch, #$NewJob, offset + #$NewJob:head)
    if not skip[i] then
      submit(next_number(), mark, $NewJob)
      grow_queue(queue, 1)
    end
  end
end

-- A queue that is too full for the new jobs: its name, its limit, how many wait in it and how many come. Or nothing.
local function full_queue()
  for queue, more in pairs(queue_growth) do
    local known = call('HGET', QUEUES, queue)
    known_queues[queue] = known
    local behind = known and known:find(' ', 1, true)
    local limit = behind and more > 0 and tonumber(from_json(known:sub(behind)).max_length)
    if limit then
      local waiting = call('ZCARD', key_of('in:laned', queue))
      for _, state in ipairs({'scheduled', 'waiting', 'pending', 'retrying'}) do
        waiting = waiting + call('ZCARD', key_of('in:' .. state, queue))
      end
      if waiting + more > limit then return {'full', queue, limit, waiting, more} end
    end
  end
end

-- Create the queues of the new jobs, and wake workers for them.
local function announce(now, messages)
  for queue in pairs(queue_growth) do
    if not known_queues[queue] then call('HSETNX', QUEUES, queue, now) end
    messages['work:' .. queue] = true
  end
  ring(messages)
end
