-- Remove finished jobs that are older than they are kept.
-- ARGV: limit, then a state and the time before which its jobs go, ...
-- Answers: how many went

if call('EXISTS', P .. ':notice') == 1 then return 0 end -- what is being carried over is not thrown away meanwhile

local limit = tonumber(ARGV[1])
local members = {}
for _, queue in ipairs(call('HKEYS', QUEUES)) do
  for i = 2, #ARGV, 2 do
    local left = limit - #members
    if left > 0 then
      local old = call('ZRANGEBYSCORE', place(ARGV[i], queue), '-inf', '(' .. ARGV[i + 1], 'LIMIT', 0, left)
      for _, member in ipairs(old) do members[#members + 1] = member end
    end
  end
end
local count = #members
if count == 0 then return 0 end
local records = records_of(members, count)
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j then erase(member, j) end
end
flush_erased({})

-- Hours before the oldest job that is left need not be remembered.
local oldest
local function consider(left)
  for _, member in ipairs(left) do
    if not oldest or member < oldest then oldest = member end
  end
end
for state in pairs(PLACES) do consider(call('ZRANGE', named('state', state), 0, 0)) end
consider(call('ZRANGE', LEASES, 0, -1))
local spans = call('HGETALL', P .. ':spans')
for i = 1, #spans, 2 do
  if not oldest or spans[i + 1]:match(' (%d+)') < oldest then call('HDEL', P .. ':spans', spans[i]) end
end
return count
