-- Store dead letters whose id is not there yet. One may be pending for a job: the one that is there goes before.
-- ARGV: where they come from or nothing, then each a DeadRow
-- Answers: how many; or nothing, if no notice says that jobs arrive from there

if not still_arriving(ARGV[1]) then return false end
guard()
local stored = 0
for i = 2, #ARGV do
  local l = read_letter(ARGV[i])
  local is_second = l.status == 'pending' and call('HEXISTS', UNRESOLVED, l.job_id) == 1
  if call('HEXISTS', LETTERS, l.id) == 0 and not is_second then
    put_letter(l)
    flush()
    stored = stored + 1
  end
end
return stored
