-- Some of the lanes of a queue whose jobs need a capability of their worker, or may do so by their names.
-- ARGV: queue, where the last call stopped ('0' at first), about how many lanes to read
-- Answers: where it stopped ('0' at the end), and of each lane its name, its number of jobs, the id of the first, ...

local reached, found = unpack(call('HSCAN', P .. ':lanes:' .. ARGV[1], ARGV[2], 'COUNT', ARGV[3]))
local answer = {reached}
for i = 1, #found, 2 do
  local lane = found[i]
  local key = P .. ':lane:' .. ARGV[1] .. ':' .. lane
  local first = lane:find('"n:', 1, true) and call('ZRANGE', key, 0, 0)
  local j = first and first[1] and job_of(records_of(first, 1)[1])
  if j then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = lane, call('ZCARD', key), j.id
  end
end
return answer
