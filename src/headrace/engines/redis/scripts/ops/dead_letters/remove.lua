-- Delete dead letters, whatever their status. No guard before it: it must run when no memory is left.
-- ARGV: ids
-- Answers: the ids of those that existed

local done, seen, fingerprints = {}, {}, {}
for _, id in ipairs(cmsgpack.unpack(ARGV[1])) do
  local packed = not seen[id] and call('HGET', DEAD_LETTERS, id)
  if packed then
    local l = read_dead_letter(packed, id)
    remove_dead_letter(l)
    fingerprints[l.fingerprint], seen[id], done[#done + 1] = true, true, id
  end
end
flush()
drop_unused_fingerprints(fingerprints)
return done
