-- Run the jobs of pending dead letters again; a deleted job is inserted anew.
-- ARGV: now, by, remark, detail, mark, requests: each id, boost, most, run_at, payload, checksum, its tags, NewJob, its
-- history, the note and the actor if it was requeued too often; absent is false
-- Answers: job id, result and requeues of each; or, in a list of its own, the answer of `store_status`

local now, by, remark, detail, mark = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
if by == '' then by = nil end
if detail == '' then detail = nil end

local status = store_status()
if status then return {status} end

local answer, revived, deleted, moving, seen, messages = {}, {}, {}, {}, {}, {}

local function add_answer(job_id, result, requeues)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = job_id, result, requeues
end

local function decide_request(request)
  local id, most, job = request[1], request[3], request[8]
  local packed = not seen[id] and call('HGET', DEAD_LETTERS, id)
  if not packed then return add_answer('', 'missing', 0) end
  local l = read_dead_letter(packed, id)
  if l.status ~= 'pending' then return add_answer(l.job_id, 'resolved', l.requeues) end
  local member = call('HGET', IDS, l.job_id)
  local j = member and job_of(call('HGET', JOBS, member))
  local is_busy = member and not (j and (j.state == 'failed' or j.state == 'cancelled'))
  if l.requeues >= most then
    seen[id] = true
    local notes = (remark ~= '' and remark .. ',' or '') .. request[10]
    resolve_dead_letter(l, 'permanently_failed', now, request[11], l.requeues, notes)
    return add_answer(l.job_id, 'used_up', l.requeues)
  end
  if is_busy or not member and not job then return add_answer(l.job_id, 'busy', l.requeues) end
  seen[id] = true
  resolve_dead_letter(l, 'requeued', now, by, l.requeues + 1, remark)
  if j then
    j.member, j.request, moving[member] = member, request, true
    revived[#revived + 1] = j
    return add_answer(l.job_id, 'requeued', l.requeues)
  end
  deleted[#deleted + 1] = {job, request[9]}
  add_answer(l.job_id, 'stored_anew', l.requeues)
end

local function change_arguments(member, request)
  local _, _, options, tags, metadata, own_mark, key = read_payload(call('HGET', PAYLOADS, member))
  if request[7] then
    for _, tag in ipairs(tags_of(tags)) do drop(key_of('tag', tag), member) end
    for _, tag in ipairs(tags_of(request[7])) do add(key_of('tag', tag), member, member) end
    tags = request[7] ~= '[]' and request[7] or nil
  end
  local payload_record = pack(request[5], request[6], options, tags, metadata, own_mark, key)
  deferred[#deferred + 1] = function() call('HSET', PAYLOADS, member, payload_record) end
end

local function requeue(j, any_edges)
  local member, request = j.member, j.request
  local target, run_at = 'pending', math.max(request[4] or now, now)
  if any_edges then target = state_of_revived(member, moving) end
  if target == 'pending' and run_at > now then target = 'scheduled' end
  record_history(member, j, now, 'revive', target, detail, j.finished_at)
  reopen_key(member, j)
  if request[5] then change_arguments(member, request) end
  move(member, j, function()
    set_revived(j, target, run_at)
    j.priority = math.max(-100, math.min(100, j.priority + request[2]))
  end)
  if target == 'pending' then messages['work:' .. j.queue] = true end
end

for _, request in ipairs(cmsgpack.unpack(ARGV[6])) do decide_request(request) end
if next(seen) == nil then return answer end

guard()
local any_edges = any_dependencies()
for _, j in ipairs(revived) do requeue(j, any_edges) end
if #deleted > 0 then
  local next_number = reserve_numbers(#deleted)
  for _, anew in ipairs(deleted) do
    local job, member = anew[1], next_number()
    submit(member, mark, unpack(job, 1, 19))
    for _, entry in ipairs(anew[2]) do
      local n = #appends
      appends[n + 1], appends[n + 2] = P .. ':history:' .. member, '\157' .. pack(unpack(entry, 1, 13))
    end
    queue_growth[job[3]] = (queue_growth[job[3]] or 0) + 1
  end
  flush_new_jobs()
else
  flush()
end
if any_edges then reopen(revived, now) end
if rules_exist() then messages.work = true end
if #revived > 0 and next(messages) == nil then messages.work = true end -- workers need to know when the next is due
announce(now, messages)
return answer
