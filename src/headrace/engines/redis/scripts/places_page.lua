-- Jobs that are not found where they should be.
-- ARGV: where to go on, how many to look at, now, 1 if they are to be put there
-- Answers: where to go on, 0 at the end; how many were not found, the numbers of those that are damaged

local now, is_repair = tonumber(ARGV[3]), ARGV[4] == '1'
local page = call('HSCAN', JOBS, ARGV[1], 'COUNT', ARGV[2])
local lost, damaged, found = 0, {}, page[2]

local function is_there(key, member)
  return call('ZSCORE', key, member) and true or false
end

local function is_in_place(member, j)
  if not is_there(named('queue', j.queue), member) or not is_there(named('task', j.task), member) then return false end
  if j.state == 'running' then return is_there(LEASES, member) and is_there(place('running', j.queue), member) end
  local stands = j.state == 'pending' and j.lane ~= '' and named('in:laned', j.queue) or place(j.state, j.queue)
  if PUT_OFF[j.state] and not is_there(DUE, member) then return false end
  return is_there(named('state', j.state), member) and is_there(stands, member)
end

for i = 1, #found, 2 do
  local member, j = found[i], job_of(found[i + 1])
  if not j then
    damaged[#damaged + 1] = member
  elseif not is_in_place(member, j) or call('HGET', IDS, j.id) ~= member then
    lost = lost + 1
    if is_repair then
      add(named('queue', j.queue), member, member)
      add(named('task', j.task), member, member)
      enter(member, j, call('ZSCORE', LEASES, member) or now) -- without a lease it is taken over at once
      local known = call('HGET', IDS, j.id)
      if not known or call('HEXISTS', JOBS, known) == 0 then
        deferred[#deferred + 1] = function() call('HSET', IDS, j.id, member) end
      end
    end
  end
end
if is_repair and lost > 0 then
  guard()
  flush()
end
return {page[1], lost, damaged}
