-- Run the jobs of pending dead letters again; a deleted job is inserted anew.
-- ARGV: now, by, remark, detail, mark, orders: each id, boost, most, run_at, payload, checksum, NewJob, its history,
-- the note and the actor if it was requeued too often; absent is false
-- Answers: job id, result and requeues of each; or, in a list of its own, the answer of `notice`

local now, by, remark, detail, mark = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
if by == '' then by = nil end
if detail == '' then detail = nil end

local door = notice()
if door then return {door} end

local answer, revived, gone, moving, seen, messages = {}, {}, {}, {}, {}, {}

local function tell(job_id, verdict, requeues)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = job_id, verdict, requeues
end

local function decide(order)
  local id, most, job = order[1], order[3], order[7]
  local packed = not seen[id] and call('HGET', DEAD_LETTERS, id)
  if not packed then return tell('', 'missing', 0) end
  local l = read_letter(packed, id)
  if l.status ~= 'pending' then return tell(l.job_id, 'resolved', l.requeues) end
  local member = call('HGET', IDS, l.job_id)
  local j = member and job_of(call('HGET', JOBS, member))
  local is_busy = member and not (j and (j.state == 'failed' or j.state == 'cancelled'))
  if l.requeues >= most then
    seen[id] = true
    close_letter(l, 'permanently_failed', now, order[10], l.requeues, (remark ~= '' and remark .. ',' or '') .. order[9])
    return tell(l.job_id, 'used_up', l.requeues)
  end
  if is_busy or not member and not job then return tell(l.job_id, 'busy', l.requeues) end
  seen[id] = true
  close_letter(l, 'requeued', now, by, l.requeues + 1, remark)
  if j then
    j.member, j.order, moving[member] = member, order, true
    revived[#revived + 1] = j
    return tell(l.job_id, 'requeued', l.requeues)
  end
  gone[#gone + 1] = {job, order[8]}
  tell(l.job_id, 'stored_anew', l.requeues)
end

local function change_arguments(member, order)
  local _, _, options, tags, metadata, own, key = body_of(call('HGET', PAYLOADS, member))
  local body = pack(order[5], order[6], options, tags, metadata, own, key)
  deferred[#deferred + 1] = function() call('HSET', PAYLOADS, member, body) end
end

local function requeue(j, has_bonds)
  local member, order = j.member, j.order
  local target, run_at = 'pending', math.max(order[4] or now, now)
  if has_bonds then target = state_of_revived(member, moving) end
  if target == 'pending' and run_at > now then target = 'scheduled' end
  file(member, j, now, 'revive', target, detail, j.finished_at)
  reopen_key(member, j)
  if order[5] then change_arguments(member, order) end
  move(member, j, function()
    revived_as(j, target, run_at)
    j.priority = math.max(-100, math.min(100, j.priority + order[2]))
  end)
  if target == 'pending' then messages['work:' .. j.queue] = true end
end

for _, order in ipairs(cmsgpack.unpack(ARGV[6])) do decide(order) end
if next(seen) == nil then return answer end

guard()
local has_bonds = any_kin()
for _, j in ipairs(revived) do requeue(j, has_bonds) end
if #gone > 0 then
  local next_number = numbers(#gone)
  for _, anew in ipairs(gone) do
    local job, member = anew[1], next_number()
    submit(member, mark, unpack(job, 1, 19))
    for _, filing in ipairs(anew[2]) do
      local n = #filed
      filed[n + 1], filed[n + 2] = P .. ':history:' .. member, '\157' .. pack(unpack(filing, 1, 13))
    end
    coming[job[3]] = (coming[job[3]] or 0) + 1
  end
  flush_births()
else
  flush()
end
if has_bonds then reopen(revived, now) end
if is_minded() then messages.work = true end
if #revived > 0 and next(messages) == nil then messages.work = true end -- workers need to know when the next is due
announce(now, messages)
return answer
