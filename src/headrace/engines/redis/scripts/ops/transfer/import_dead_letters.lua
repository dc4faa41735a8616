-- Store dead letters whose id does not exist yet. A job has at most one pending one: an existing one wins.
-- ARGV: their origin or nothing, then each a DeadLetterRow
-- Answers: how many; or nothing, if the store status does not say that jobs arrive from there

if not still_arriving(ARGV[1]) then return false end
guard()
local stored = 0
for i = 2, #ARGV do
  local l = read_dead_letter(ARGV[i])
  local is_second = l.status == 'pending' and call('HEXISTS', DEAD_PENDING, l.job_id) == 1
  if call('HEXISTS', DEAD_LETTERS, l.id) == 0 and not is_second then
    put_dead_letter(l)
    flush()
    stored = stored + 1
  end
end
return stored
