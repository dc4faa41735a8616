-- Take jobs from workers that died or let their lease run out. Jobs that a dead worker had not begun, or had ended and
-- may repeat, get their attempt back.
-- ARGV: now, limit, salt, dead (array of worker, numbers of the claims it had begun, negative if they had ended, ...),
-- how many workers a job may lose, or 0 for any number, the time as of which leases are over, then the
-- reasons for which a dead letter is opened, ...
-- Answers: the jobs (array of ReapedJob) and the numbers of damaged ones, or nothing if they have to wait

local now, limit, salt, dead = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], cmsgpack.unpack(ARGV[4])
local max_crashes, as_of = tonumber(ARGV[5]), tonumber(ARGV[6])

local opens_dead_letter = {}
for i = 7, #ARGV do opens_dead_letter[ARGV[i]] = true end

local begun_by, any_dead = {}, false
for i = 1, #dead, 2 do
  local begun = {}
  for _, seq in ipairs(dead[i + 1]) do begun[seq] = true end
  begun_by[dead[i]], any_dead = begun, true
end

-- Overdue leases come first; only for dead workers all have to be read.
local last, most = any_dead and '+inf' or as_of, any_dead and -1 or limit
local members = call('ZRANGEBYSCORE', LEASES, '-inf', last, 'LIMIT', 0, most)
-- Dependents of these jobs may not have arrived yet.
if #members > 0 and call('HGET', P .. ':status', 'kind') == 'arriving' then return false end
local leases = any_dead and read_in_parts('ZMSCORE', LEASES, members, #members)
local records = records_of(members, #members)
local reaped, reaped_count, messages, failed, damaged = {}, 0, {}, {}, {}

-- The times and workers, in JSON, of the job's crashes since it was revived, including this one.
local function crash_evidence(member, j)
  local losses, workers = {}, {}
  for _, entry in ipairs(call('LRANGE', P .. ':history:' .. member, 0, -1)) do
    local at, event, _, _, _, _, worker = unpack(salvage(entry, 7, 1), 1, 7)
    if event == 'lease_expired' and at then losses[#losses + 1] = {at, worker or 'unknown'} end
  end
  losses[#losses + 1] = {now, j.worker or 'unknown'}
  local crashes = {}
  for i = math.max(#losses - j.crashes, 1), #losses do
    crashes[#crashes + 1] = string.format('[%.0f,%s]', losses[i][1], json(losses[i][2]))
    workers[#workers + 1] = losses[i][2]
  end
  return '[' .. table.concat(crashes, ',') .. ']', workers
end

-- As in core/jobs/fingerprint.py and engines/shared/decisions.py.
local function lost_outcome(member, j, reason)
  local o = {
    reason = reason, at = now, error_type = 'WorkerLost', error_traceback = '',
    error_message = 'the worker died or let its lease run out',
    fingerprint = redis.sha1hex(j.task .. '\0' .. reason):sub(1, 16),
  }
  if reason == 'crash_loop' then
    local crashes, workers = crash_evidence(member, j)
    o.crashes = crashes
    o.error_message = #workers .. ' times its worker died or let its lease run out: ' .. table.concat(workers, ', ')
  end
  return o
end

local function expire_lease(member, j)
  local is_loop = max_crashes > 0 and j.crashes + 1 >= max_crashes
  local is_last = is_loop or j.attempt >= j.max_attempts
  local target, detail, reason = 'pending', 'recovered', is_loop and 'crash_loop' or 'worker_lost'
  if is_last then target, detail = 'failed', is_loop and 'its workers die again and again' or 'attempts used up' end
  local worker = j.worker or 'unknown'
  record_history(member, j, now, 'lease_expired', target, detail, nil, 'WorkerLost',
    'worker ' .. worker .. ' died or let its lease run out', '')
  if is_last and opens_dead_letter[reason] then
    add_dead_letter(member, j, salt, lost_outcome(member, j, reason))
  end
  move(member, j, function()
    j.state, j.crashes = target, j.crashes + 1
    if is_last then
      j.finished_at, j.reason = now, reason
    else
      j.worker, j.finished_at, j.reason = nil, nil, nil
    end
  end)
end

for i, member in ipairs(members) do
  if reaped_count == limit then break end
  local j = job_of(records[i])
  local begun = j and j.worker and begun_by[j.worker]
  if not j or j.state ~= 'running' then -- the entry or the record is damaged
    drop(LEASES, member)
    if records[i] and not j then damaged[#damaged + 1] = member end
  elseif begun or not any_dead or tonumber(leases[i]) <= as_of then
    local worker = j.worker
    local seq = tonumber(member)
    if begun and not begun[seq] and not begun[-seq] then
      release(member, j, now, 'its worker died before it began')
    elseif begun and begun[-seq] and j.attempt < j.max_attempts then
      release(member, j, now, 'its worker died before its end was stored')
    else
      expire_lease(member, j)
    end
    messages[j.state == 'pending' and 'work:' .. j.queue or 'done'] = true
    if j.state == 'failed' then j.member, failed[#failed + 1] = member, j end
    reaped_count = reaped_count + 1
    reaped[reaped_count] = '\148' .. pack(j.id, j.queue, j.state, worker)
  end
end
if reaped_count > 0 or next(drops) then
  guard_without_memory()
  flush()
  if #failed > 0 and any_dependencies() then propagate(failed, now, messages) end
  if rules_exist() then messages.work = true end
  ring(messages)
end
-- A bucket that has been full for a minute can be deleted; the minute allows for clock differences.
call('ZREMRANGEBYSCORE', P .. ':rate_buckets', '-inf', text(1000 * (now - 60000)))
if any_dead and reaped_count < limit then
  for worker in pairs(begun_by) do
    if call('HDEL', P .. ':workers', worker) == 1 then
      store_page('[["worker.lost",' .. json(now) .. ',null,null,' .. json(worker) .. ']]', 1, json(now))
    end
  end
end
return {as_array(reaped, reaped_count), damaged}
