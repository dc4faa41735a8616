-- Shared by dead_letters/purge and dead_letters/remove.

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
    for _, one in ipairs({'pending', 'requeued', 'manually_resolved', 'permanently_failed', 'cancelled'}) do
      is_left = is_left or call('EXISTS', dead_index_key(one, 'fingerprint', fingerprint)) == 1
    end
    if not is_left then call('SREM', P .. ':dead_fingerprints', fingerprint) end
  end
end
