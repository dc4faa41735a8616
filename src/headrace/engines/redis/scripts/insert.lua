-- Store new jobs. Answers with the positions of those whose id was taken, or with the address of the store that the
-- jobs of this one were carried over to. With `whole` a taken id means that nothing is stored.
-- ARGV: now, whole, mark, again, count, ids, jobs (array of NewJob)

local now, whole, mark, again = tonumber(ARGV[1]), ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4] == '1'
local count, given, jobs = tonumber(ARGV[5]), cmsgpack.unpack(ARGV[6]), ARGV[7]

local door = call('HMGET', P .. ':notice', 'kind', 'other')
if door[1] == 'moved' then return door[2] end

-- Whether the job of this number was stored by this very call, whose answer was lost on its way.
local function is_own(member)
  local body = call('HGET', BODIES, member)
  return body and select(7, take(body, 6)) == mark
end

local known = ask_in_parts('HMGET', IDS, given, count)
local seen, skip, taken, fresh = {}, {}, {}, count
for i = 1, count do
  local id = given[i]
  if seen[id] or (known[i] and not (again and is_own(known[i]))) then
    taken[#taken + 1] = i
  end
  if seen[id] or known[i] then
    skip[i] = true
    fresh = fresh - 1
  end
  seen[id] = true
end
if fresh == 0 or (whole and #taken > 0) then return taken end

guard()
local next_number = numbers(fresh)
local PENDING, STATE_PENDING = 'pending', named('state', 'pending')
local queues, messages, beginnings = {}, {}, {}
local offset = count < 16 and 1 or count < 65536 and 3 or 5
for i = 1, count do
  local id, task, queue, state, priority, rank, payload, checksum, created_at, run_at, max_attempts, expires_at,
    options, tags, metadata, version
  offset, id, task, queue, state, priority, rank, payload, checksum, created_at, run_at, max_attempts, expires_at,
    options, tags, metadata, version = take(jobs, 16, offset + 3)
  if not skip[i] then
    local member = next_number()
    local beginning = version == 1 and beginnings[state]
    if not beginning then
      beginning = pack(state, nil, nil, nil, nil, version, 0, nil, nil, nil)
      if version == 1 then beginnings[state] = beginning end
    end
    local record = beginning
      .. pack(queue, expires_at, id, task, priority, rank, max_attempts, created_at, run_at, 0, 0)
    bear(member, id, task, queue, tags, created_at, record, pack(payload, checksum, options, tags, metadata, mark))
    if state == PENDING then
      add(place(PENDING, queue), standing(priority, rank), member)
      add(STATE_PENDING, member, member)
      if expires_at then add(LAPSING, text(expires_at), member) end
    else
      enter(member, {state = state, queue = queue, run_at = run_at, expires_at = expires_at})
    end
    if not queues[queue] then
      queues[queue] = true
      messages['work:' .. queue] = true
    end
  end
end
flush_births()
for queue in pairs(queues) do call('HSETNX', P .. ':queues', queue, now) end
ring(messages)
return taken
