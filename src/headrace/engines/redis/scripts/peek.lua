-- The pending jobs of a queue in the order they will be claimed, as rows.
-- ARGV: queue, limit

local LANES_TO_PEEK = 50
local queue, limit = ARGV[1], tonumber(ARGV[2])

local fronts = {heads(queue, '', limit)}
for _, lane in ipairs(lanes_after(queue, '', LANES_TO_PEEK)) do fronts[#fronts + 1] = heads(queue, lane, limit) end
local members = {}
for i, head in ipairs(in_turn(fronts, true)) do
  if i > limit then break end
  members[i] = head.member
end
return rows_of(members, #members, records_of(members, #members))
