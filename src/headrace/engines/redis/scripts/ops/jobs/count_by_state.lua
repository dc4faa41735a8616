-- For each of these queues and states that has any: queue, state, number of jobs, and the time of the oldest.
-- ARGV: names of queues, states

-- Pending jobs are sorted by priority first, so the oldest of each priority is read: the first FIFO job, the last LIFO
-- job.
local function oldest_pending(key)
  local oldest, from = nil, '-inf'
  while true do
    local first = call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if not first then return oldest end
    local middle = math.floor((tonumber(first) + RANKS / 2) / RANKS) * RANKS
    local backward = call('ZREVRANGEBYSCORE', key, string.format('(%.0f', middle),
      string.format('%.0f', middle - MAX_RANK), 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local forward = call('ZRANGEBYSCORE', key, string.format('%.0f', middle), string.format('%.0f', middle + MAX_RANK),
      'WITHSCORES', 'LIMIT', 0, 1)[2]
    local age = math.min(backward and middle - tonumber(backward) or math.huge,
      forward and tonumber(forward) - middle or math.huge)
    oldest, from = math.min(oldest or age, age), string.format('(%.0f', middle + MAX_RANK)
  end
end

local function oldest(state, key)
  if state == 'waiting' then return nil end
  if state == 'pending' then return oldest_pending(key) end
  return tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

-- Pending jobs may be in lanes or in none.
local function keys_of(state, queue)
  if state == 'pending' then return {state_key(state, queue), key_of('in:laned', queue)} end
  return {state_key(state, queue)}
end

local found, count = {}, 0
local states = cmsgpack.unpack(ARGV[2])
for _, queue in ipairs(cmsgpack.unpack(ARGV[1])) do
  for _, state in ipairs(states) do
    local jobs, since = 0, nil
    for _, key in ipairs(keys_of(state, queue)) do
      local here = call('ZCARD', key)
      local first = here > 0 and oldest(state, key) or nil
      jobs, since = jobs + here, first and math.min(since or first, first) or since
    end
    if jobs > 0 then
      count = count + 1
      found[count] = $QueueCount:head .. pack(queue, state, jobs, since)
    end
  end
end
return as_array(found, count)
