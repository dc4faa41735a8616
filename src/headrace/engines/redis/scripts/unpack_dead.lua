-- Store dead letters whose id is not there yet. One may be pending for a job: the one that is there goes before.
-- ARGV: each a DeadRow
-- Answers: how many

guard()
local stored = 0
for _, packed in ipairs(ARGV) do
  local l = read_letter(packed)
  local is_second = l.status == 'pending' and call('HEXISTS', UNRESOLVED, l.job_id) == 1
  if call('HEXISTS', LETTERS, l.id) == 0 and not is_second then
    put_letter(l)
    flush()
    stored = stored + 1
  end
end
return stored
