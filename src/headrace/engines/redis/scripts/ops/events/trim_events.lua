-- Delete the oldest pages of events that are too old, or beyond this many events. The newest page stays.
-- ARGV: before, most, limit
-- Answers: how many were deleted

local before, most, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local stream = P .. ':events'
local kept = tonumber(call('GET', P .. ':events_count') or 0)
local pages = call('XRANGE', stream, '-', '+', 'COUNT', limit + 1)
local deleted = {}
for i = 1, math.min(limit, #pages - 1) do
  local id, fields = pages[i][1], pages[i][2]
  local size, at = tonumber(fields[4]), tonumber(fields[6])
  if kept - size < most and at >= before then break end
  kept, deleted[#deleted + 1] = kept - size, id
end
if #deleted > 0 then
  write_in_parts('XDEL', stream, deleted, #deleted)
  call('SET', P .. ':events_count', string.format('%.0f', kept))
end
return #deleted
