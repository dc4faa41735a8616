-- Take jobs from workers that died or let their lease run out. What a dead worker had not begun gets its attempt back.
-- ARGV: now, limit, salt, dead (array of worker, numbers of the claims it had begun, ...)
-- Answers: the jobs (array of Reaped)

local now, limit, salt, told = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], cmsgpack.unpack(ARGV[4])

local begun_by, any_dead = {}, false
for i = 1, #told, 2 do
  local begun = {}
  for _, seq in ipairs(told[i + 1]) do begun[seq] = true end
  begun_by[told[i]], any_dead = begun, true
end

-- By their leases those that are overdue come first; only for dead workers all have to be looked at.
local members = call('ZRANGEBYSCORE', LEASES, '-inf', any_dead and '+inf' or now, 'LIMIT', 0, any_dead and -1 or limit)
local leases = any_dead and ask_in_parts('ZMSCORE', LEASES, members, #members)
local records = records_of(members, #members)
local reaped, reaped_count, messages, failed = {}, 0, {}, {}

local function expire(member, j)
  local is_last = j.attempt >= j.max_attempts
  local target, detail = 'pending', 'recovered'
  if is_last then target, detail = 'failed', 'attempts used up' end
  local worker = j.worker or 'unknown'
  file(member, j, now, 'expire', target, detail, nil, 'WorkerLost',
    'worker ' .. worker .. ' died or let its lease run out', '')
  if is_last then
    bury(member, j, salt, {
      reason = 'worker_lost', at = now, error_type = 'WorkerLost', error_traceback = '',
      error_message = 'the worker died or let its lease run out',
      fingerprint = redis.sha1hex(j.task .. '\0worker_lost'):sub(1, 16), -- as core/fingerprint.py makes it
    })
  end
  move(member, j, function()
    j.state, j.crashes = target, j.crashes + 1
    if is_last then
      j.finished_at, j.reason = now, 'worker_lost'
    else
      j.worker, j.finished_at, j.reason = nil, nil, nil
    end
  end)
end

for i, member in ipairs(members) do
  if reaped_count == limit then break end
  local j = job_of(records[i])
  local begun = j and j.worker and begun_by[j.worker]
  if not j then
    drop(LEASES, member)
  elseif begun or not any_dead or tonumber(leases[i]) <= now then
    local worker = j.worker
    if begun and not begun[tonumber(member)] then
      release(member, j, now, 'its worker died before it began')
    else
      expire(member, j)
    end
    messages[j.state == 'pending' and 'work:' .. j.queue or 'done'] = true
    if j.state == 'failed' then j.member, failed[#failed + 1] = member, j end
    reaped_count = reaped_count + 1
    reaped[reaped_count] = '\148' .. pack(j.id, j.queue, j.state, worker)
  end
end
if reaped_count > 0 then
  guard()
  flush()
  if #failed > 0 and any_kin() then follow(failed, now, messages) end
  if is_minded() then messages.work = true end
  ring(messages)
end
-- A bucket that has been full for a while is as good as none; the while is for clocks that differ.
call('ZREMRANGEBYSCORE', P .. ':buckets', '-inf', text(1000 * (now - 60000)))
if any_dead and reaped_count < limit then
  for worker in pairs(begun_by) do call('HDEL', P .. ':workers', worker) end
end
return as_array(reaped, reaped_count)
