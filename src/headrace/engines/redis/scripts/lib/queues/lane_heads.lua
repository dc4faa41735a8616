-- The fronts of lanes. A head is a job near the front: its member, level, priority, rank and lane, known from the place
-- where it was found.

-- The sorted set of a lane's jobs, or of the jobs without a lane.
local function lane_key(queue, lane)
  return lane == '' and state_key('pending', queue) or P .. ':lane:' .. queue .. ':' .. lane
end

-- The heads in the members and scores of an answer.
local function heads_of(found, lane)
  local heads = {}
  for i = 1, #found, 2 do
    local level = level_of(found[i + 1])
    local rank = tonumber(found[i + 1]) - level * RANKS
    heads[#heads + 1] = {member = found[i], level = level, priority = 100 - level, rank = rank, lane = lane}
  end
  return heads
end

-- The first of them by priority and rank.
local function heads(queue, lane, max_jobs)
  return heads_of(call('ZRANGE', lane_key(queue, lane), 0, max_jobs - 1, 'WITHSCORES'), lane)
end
