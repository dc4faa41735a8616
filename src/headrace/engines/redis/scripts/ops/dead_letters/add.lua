-- Open a dead letter of a job by hand. A job that has not started fails by it.
-- ARGV: now, salt, remark or nothing, the text for its history, then a NewDeadLetter; absent is nothing
-- Answers: "added", "missing", "busy" or "pending"; or, in a list of its own, the answer of `store_status`

local now, salt, remark, detail = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local id, reason, error_type, error_message, fingerprint = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local ADDABLE = {
  scheduled = true, waiting = true, pending = true, retrying = true, failed = true, cancelled = true,
}

local status = store_status()
if status then return {status} end

local member = call('HGET', IDS, id)
local j = member and job_of(call('HGET', JOBS, member))
if not j then return 'missing' end
if not ADDABLE[j.state] then return 'busy' end
if call('HEXISTS', DEAD_PENDING, id) == 1 then return 'pending' end

guard()
local is_open, messages = not FINAL[j.state], {}
if is_open then record_history(member, j, now, 'fail', 'failed', detail, j.finished_at) end
add_dead_letter(member, j, salt, {
  at = now, reason = reason, error_type = error_type ~= '' and error_type or nil,
  error_message = error_message ~= '' and error_message or nil, error_traceback = '', fingerprint = fingerprint,
  notes = remark ~= '' and '[' .. remark .. ']' or nil,
})
if is_open then
  move(member, j, function() j.state, j.finished_at, j.reason = 'failed', now, reason end)
  j.member = member
end
flush()
if is_open then
  if any_dependencies() then propagate({j}, now, messages) end
  messages.done = true
  if rules_exist() then messages.work = true end
end
ring(messages)
return 'added'
