-- The pending jobs of a queue in the order of their claim, as rows: the most urgent first, and of equally urgent ones
-- one of each lane in turn.
-- ARGV: queue, limit and, for light rows, the longest value they may have

local LANES_TO_PEEK = 50
local queue, limit = ARGV[1], tonumber(ARGV[2])

local found = heads(queue, '', limit)
for _, turn in ipairs(call('ZRANGE', P .. ':turns:' .. queue, 0, LANES_TO_PEEK - 1)) do
  for _, head in ipairs(heads(queue, turn:sub(4), limit)) do found[#found + 1] = head end
end
local rounds = {}
for _, head in ipairs(found) do
  local place_of_lane = head.level .. head.lane
  rounds[place_of_lane] = (rounds[place_of_lane] or 0) + 1
  head.round = rounds[place_of_lane]
end
table.sort(found, function(a, b)
  if a.level ~= b.level then return a.level < b.level end
  if a.round ~= b.round then return a.round < b.round end
  if a.rank ~= b.rank then return a.rank < b.rank end
  return a.member < b.member
end)
local members = {}
for i = 1, math.min(limit, #found) do members[i] = found[i].member end
return rows_of(members, #members, records_of(members, #members), tonumber(ARGV[3]))
