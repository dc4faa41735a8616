-- The fronts of lanes, and a fair order among them. A head is a job near the front: its member, priority, rank and lane,
-- which are told by the place where it was found.

-- The heads among the members and scores of an answer.
local function heads_of(found, lane)
  local heads = {}
  for i = 1, #found, 2 do
    local score = tonumber(found[i + 1])
    local level = math.floor((score + RANKS / 2) / RANKS)
    heads[#heads + 1] = {member = found[i], priority = 100 - level, rank = score - level * RANKS, lane = lane}
  end
  return heads
end

-- The first of a lane, or of what waits in none.
local function heads(queue, lane, room)
  local key = lane == '' and place('pending', queue) or P .. ':lane:' .. queue .. ':' .. lane
  return heads_of(call('ZRANGE', key, 0, room - 1, 'WITHSCORES'), lane)
end

-- The next lanes of the queue by name.
local function lanes_after(queue, after, limit)
  return call('ZRANGEBYLEX', P .. ':lanes:' .. queue, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
end

local function comes_before(a, b)
  if a.level ~= b.level then return a.level > b.level end
  if a.round ~= b.round then return a.round < b.round end
  if a.rank ~= b.rank then return a.rank < b.rank end
  return a.member < b.member
end

-- The heads of several lanes in a fair order: of those that are equally urgent, one of each lane in turn.
local function in_turn(lanes, by_priority)
  local placed = {}
  for _, of_lane in ipairs(lanes) do
    local rounds = {}
    for _, head in ipairs(of_lane) do
      head.level = by_priority and head.priority or 0
      rounds[head.level] = (rounds[head.level] or 0) + 1
      head.round = rounds[head.level]
      placed[#placed + 1] = head
    end
  end
  table.sort(placed, comes_before)
  return placed
end
