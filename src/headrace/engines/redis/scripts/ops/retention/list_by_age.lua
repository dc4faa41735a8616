-- Open jobs of one state by their numbers, each as its stored record. The caller decodes them: here every other client
-- would wait for it.
-- ARGV: state, the number reached, how many to read
-- Answers: the number reached, or nothing at the end; the number of jobs; their numbers; their records, each but the
-- first after the head of its array

local state, reached, scan_limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local HEAD = $Record:head

-- Running jobs are few, and the order of their leases changes all the time: they are sorted by number.
local function next_running()
  local members, chosen = call('ZRANGE', LEASES, 0, -1), {}
  table.sort(members)
  for _, member in ipairs(members) do
    if member > reached and #chosen < scan_limit then chosen[#chosen + 1] = member end
  end
  return chosen
end

local function next_members()
  if state == 'running' then return next_running() end
  local after = '(' .. (reached == '' and '-1' or reached)
  return call('ZRANGEBYSCORE', key_of('state', state), after, '+inf', 'LIMIT', 0, scan_limit)
end

local members, whole, n = next_members(), {}, 0
local records, last = records_of(members, #members), #members == scan_limit and members[scan_limit]
for i, record in ipairs(records) do
  if record then
    n = n + 1
    members[n], whole[n] = members[i], record
  end
end
return {last, n, table.concat(members, '', 1, n), table.concat(whole, HEAD)}
