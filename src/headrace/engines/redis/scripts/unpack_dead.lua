-- Store dead letters whose id is not there yet. One may be pending for a job: the one that is there goes before.
-- ARGV: each a DeadRow
-- Answers: how many

guard()
local stored = 0
for _, letter in ipairs(ARGV) do
  local _, id, job_id, _, _, _, _, status = take(letter, 7, 1)
  local is_open = status == 'pending'
  if call('HEXISTS', LETTERS, id) == 0 and not (is_open and call('HEXISTS', UNRESOLVED, job_id) == 1) then
    call('HSET', LETTERS, id, letter)
    call('ZADD', DEAD, 0, id)
    if is_open then call('HSET', UNRESOLVED, job_id, id) end
    stored = stored + 1
  end
end
return stored
