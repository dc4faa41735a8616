-- Write what was decided outside, all of it; or nothing, if something has changed since the decision.
-- ARGV: now, salt, 1 if it must run without memory, 1 if jobs that have changed are left out, then an array of one
-- WriteBatch
-- Answers: 1, or 0 after a change; the numbers of damaged jobs; the positions of the changes that were left out

local now, salt, without_memory, is_partial = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1', ARGV[4] == '1'
local $WriteBatch = unpack(cmsgpack.unpack(ARGV[5])[1], 1, #$WriteBatch)

-- Whether a read still has the answer it had: a text, a number, or nothing.
local function holds(answer, command, key, ...)
  return call(command, P .. key, ...) == answer
end

-- The jobs of the changes, nothing in place of one that has changed; and whether everything else is as it was.
local function read_all()
  local members, jobs, damaged, left_out, all_hold = {}, {}, {}, {}, true
  for i, change in ipairs(changes) do members[i] = change[$RecordChange.member] end
  for i, record in ipairs(records_of(members, #members)) do
    local j = record and job_of(record)
    if record and not j then damaged[#damaged + 1] = members[i] end
    if j and j.version == changes[i][$RecordChange.version] then
      j.member, jobs[i] = members[i], j
    else
      left_out[#left_out + 1] = i
    end
  end
  for _, expected in ipairs(expectations) do all_hold = all_hold and holds(unpack(expected)) end
  return jobs, damaged, left_out, all_hold
end

local jobs, damaged, left_out, all_hold = read_all()
if #damaged > 0 or not all_hold or #left_out > 0 and not is_partial then return {0, damaged, {}} end
if without_memory then guard_without_memory() else guard() end

local messages, ended, revived, reviving, any_deleted = {}, {}, {}, {}, false
local any_edges = call('EXISTS', HAS_DEPENDENCIES) == 1

local INDEXED = {'queue', 'task'}
local function change_indexes(member, j, new)
  for _, name in ipairs(INDEXED) do
    if new[name] and new[name] ~= j[name] then
      drop(key_of(name, j[name]), member)
      add(key_of(name, new[name]), member, member)
    end
  end
end

-- The mark stays: a repeated insert must recognize its job.
local function change_payload(member, new)
  local p = read_payload(call('HGET', PAYLOADS, member))
  for _, tag in ipairs(tags_of(p.tags)) do drop(key_of('tag', tag), member) end
  for name, value in pairs(new) do p[name] = value or nil end
  for _, tag in ipairs(tags_of(p.tags)) do add(key_of('tag', tag), member, member) end
  local payload_record = pack($Payload(p))
  deferred[#deferred + 1] = function() call('HSET', PAYLOADS, member, payload_record) end
end

-- A finished job is to run again, or waits for its open parents.
local function reopen_job(j, values)
  if any_edges and reopening().state_of_revived(j.member, reviving) == 'waiting' then values.state = 'waiting' end
  reopening().reopen_key(j.member, j)
  revived[#revived + 1] = j
end

local function delete(j)
  deletion().delete_job(j.member, j, now)
  any_deleted, messages.done = true, true
  if not FINAL[j.state] then
    ended[#ended + 1] = {member = j.member, id = j.id, task = j.task, state = 'cancelled', reason = 'deleted'}
  end
end

local function defer_commands(commands)
  for _, command in ipairs(commands) do
    deferred[#deferred + 1] = function() call(command[1], P .. command[2], unpack(command, 3)) end
  end
end

local new_values
local function set_values(j)
  for name, value in pairs(new_values) do j[name] = value or nil end
end

local function apply(j, $RecordChange)
  if event == 'delete' then return delete(j) end
  local before = j.state
  if resolution then letters().resolve(resolution, now) end
  if reviving[member] then reopen_job(j, values) end
  if event and not values then
    append_remark(member, j, now, event, detail)
    add_history_event(j, now, event, before, detail)
  elseif event then
    local $ErrorInfo
    if error then $ErrorInfo = unpack(error, 1, #$ErrorInfo) end
    record_history(member, j, now, event, values.state or before, detail, j.finished_at, type, message, traceback)
  end
  if dead_letter then letters().add(member, j, salt, dead_letter) end
  if payload then change_payload(member, payload) end
  if not values then return end
  change_indexes(member, j, values)
  new_values = values
  move(member, j, now, set_values)
  if commands then defer_commands(commands) end
  if FINAL[j.state] and not FINAL[before] then ended[#ended + 1], messages.done = j, true end
  if not FINAL[j.state] then messages['work:' .. j.queue] = true end
end

for i, change in ipairs(changes) do
  local j, values = jobs[i], change[$RecordChange.values]
  if j and FINAL[j.state] and values and values.state and not FINAL[values.state] then reviving[j.member] = true end
end
for _, topic in ipairs(topics) do messages[topic] = true end
for _, resolution in ipairs(resolutions) do letters().resolve(resolution, now) end
for i, change in ipairs(changes) do
  if jobs[i] then apply(jobs[i], unpack(change, 1, #$RecordChange)) end
end
defer_commands(commands)
if #inserts > 0 then insertion().insert_all(inserts, mark) end
if any_deleted then
  deletion().flush(ended, now, messages)
else
  if #inserts > 0 then insertion().flush() else flush() end
  if any_edges and #ended > 0 then propagation().propagate(ended, now, messages) end
  if any_edges and #revived > 0 then reopening().reopen(revived, now) end
end
if page then store_page(unpack(page)) end
if next(messages) and rules_exist() then messages.work = true end
if #inserts > 0 then insertion().announce(now, messages) else ring(messages) end
return {1, {}, left_out}
