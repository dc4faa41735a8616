-- Delete matching dead letters: these, or the next ones of one status or of all, oldest first. No guard: it frees memory
-- and must run when there is none left.
-- ARGV: status or nothing, first, last, how many to read, how many to delete, the time before which they ended or
-- nothing, filter: values by the order of KINDS, false for any; ids, if only these
-- Answers: the id reached, or nothing at the end; how many were deleted

-- Delete a dead letter, whatever its status.
local function remove_dead_letter(l)
  drop_dead_indexes(l)
  drop(DEAD_IDS, l.id)
  deferred[#deferred + 1] = function()
    call('HDEL', DEAD_LETTERS, l.id)
    if call('HGET', DEAD_LATEST, l.job_id) == l.id then call('HDEL', DEAD_LATEST, l.job_id) end
    if call('HGET', DEAD_PENDING, l.job_id) == l.id then call('HDEL', DEAD_PENDING, l.job_id) end
  end
end

-- Remove a fingerprint that no dead letter has any more. To be called after flush().
local function drop_unused_fingerprints(fingerprints)
  for fingerprint in pairs(fingerprints) do
    local is_left = false
    for _, one in ipairs({'pending', 'requeued', 'manually_resolved', 'permanently_failed', 'cancelled', 'expired'}) do
      is_left = is_left or call('EXISTS', dead_index_key(one, 'fingerprint', fingerprint)) == 1
    end
    if not is_left then call('SREM', P .. ':dead_fingerprints', fingerprint) end
  end
end

local status, scan_limit, most, before = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local wanted, ids = cmsgpack.unpack(ARGV[7]), ARGV[8] and cmsgpack.unpack(ARGV[8])
if not ids then
  local key = status == '' and DEAD_IDS or P .. ':dead:' .. status
  ids = call('ZRANGEBYLEX', key, ARGV[2] == '' and '-' or ARGV[2], '(' .. ARGV[3], 'LIMIT', 0, scan_limit)
end
local records = read_in_parts('HMGET', DEAD_LETTERS, ids, #ids)
local removed, reached, fingerprints = 0, #ids, {}
for i = 1, #ids do
  local l = records[i] and read_dead_letter(records[i], ids[i])
  if l and (status == '' or l.status == status) and dead_letter_matches(l, wanted, before) then
    remove_dead_letter(l)
    fingerprints[l.fingerprint], removed = true, removed + 1
    if removed == most then
      reached = i
      break
    end
  end
end
flush()
drop_unused_fingerprints(fingerprints)
local is_end = ARGV[8] or (reached == #ids and #ids < scan_limit)
return {not is_end and ids[reached] or false, removed}
