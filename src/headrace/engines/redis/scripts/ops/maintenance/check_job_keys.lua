-- Keys of single jobs whose job is deleted; and dependencies on deleted jobs.
-- ARGV: 1 if they are to be removed, then for each key: the key, the number of its job, 1 if it is a hash of numbers
-- Answers: for each key how many entries belong to no job

local answer, is_repair = {}, ARGV[1] == '1'
for i = 2, #ARGV, 3 do
  local key, lost = ARGV[i], 0
  if call('HEXISTS', JOBS, ARGV[i + 1]) == 0 then
    lost = 1
    if is_repair then call('UNLINK', key) end
  elseif ARGV[i + 2] == '1' then
    for _, member in ipairs(call('HKEYS', key)) do
      if call('HEXISTS', JOBS, member) == 0 then
        lost = lost + 1
        if is_repair then
          call('HDEL', key, member)
          call('SREM', blocks_of(ARGV[i + 1]), member)
        end
      end
    end
  end
  answer[#answer + 1] = lost
end
return answer
