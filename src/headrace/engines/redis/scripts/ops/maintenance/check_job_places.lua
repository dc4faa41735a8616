-- Jobs that are missing from an index.
-- ARGV: the cursor, how many to read, now, 1 if they are to be repaired
-- Answers: the cursor, 0 at the end; how many were missing, the numbers of damaged ones

local now, is_repair = tonumber(ARGV[3]), ARGV[4] == '1'
local page = call('HSCAN', JOBS, ARGV[1], 'COUNT', ARGV[2])
local lost, damaged, found = 0, {}, page[2]

local function is_in_set(key, member)
  return call('ZSCORE', key, member) and true or false
end

-- Whether the queue is marked as one with lanes, and this one has a turn.
local function has_turn(queue, lane)
  local level = call('HGET', P .. ':lanes:' .. queue, lane)
  return level and is_in_set(P .. ':turns:' .. queue, level .. lane)
    and call('SISMEMBER', QUEUES_WITH_LANES, queue) == 1
end

local function is_in_lane(member, j)
  return is_in_set(P .. ':lane:' .. j.queue .. ':' .. j.lane, member) and has_turn(j.queue, j.lane)
end

local function is_in_place(member, j)
  if not is_in_set(key_of('queue', j.queue), member) or not is_in_set(key_of('task', j.task), member) then
    return false
  end
  if j.state == 'running' then return is_in_set(LEASES, member) and is_in_set(state_key('running', j.queue), member) end
  local state_set = j.state == 'pending' and j.lane ~= '' and key_of('in:laned', j.queue) or state_key(j.state, j.queue)
  if DELAYED[j.state] and not is_in_set(DUE, member) then return false end
  if state_set ~= state_key(j.state, j.queue) and not is_in_lane(member, j) then return false end
  return is_in_set(key_of('state', j.state), member) and is_in_set(state_set, member)
end

-- Whether it is pending in another queue than its record says.
local function is_in_other_queue(member, j)
  if j.state ~= 'pending' or is_in_set(key_of('queue', j.queue), member) then return false end
  for _, queue in ipairs(call('HKEYS', QUEUES)) do
    if is_in_set(state_key('pending', queue), member) or is_in_set(key_of('in:laned', queue), member) then
      return true
    end
  end
  return false
end

for i = 1, #found, 2 do
  local member, j = found[i], job_of(found[i + 1])
  if not j or has_damaged_lane(j) or is_in_other_queue(member, j) then
    damaged[#damaged + 1] = member
  elseif not is_in_place(member, j) or call('HGET', IDS, j.id) ~= member then
    lost = lost + 1
    if is_repair then
      add(key_of('queue', j.queue), member, member)
      add(key_of('task', j.task), member, member)
      if not has_turn(j.queue, j.lane) then call('HDEL', P .. ':lanes:' .. j.queue, j.lane) end -- it gets a new one
      enter(member, j, call('ZSCORE', LEASES, member) or now) -- without a lease it is reaped at once
      local known = call('HGET', IDS, j.id)
      local other = job_of(known and call('HGET', JOBS, known) or '')
      if not other or other.id ~= j.id then
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
