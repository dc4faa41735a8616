-- Dead letters of a batch. Created at the first one.

-- Give a dead letter the status and the notes of a DeadLetterResolution.
local function resolve(resolution, now)
  local $DeadLetterResolution = unpack(resolution, 1, #$DeadLetterResolution)
  local l = read_dead_letter(call('HGET', DEAD_LETTERS, id), id)
  drop_dead_indexes(l)
  local is_resolved = l.status ~= status
  l.status, l.resolved_at, l.resolved_by, l.requeues, l.notes = status, resolved_at, resolved_by, requeues, notes
  if is_resolved then
    local job_id = l.job_id
    deferred[#deferred + 1] = function() call('HDEL', DEAD_PENDING, job_id) end
    add_dead_letter_event(l, 'dead.resolved', now)
  end
  put_dead_letter(l)
end

return {resolve = resolve, add = add_dead_letter}
