-- The next jobs that match a filter.
-- ARGV: filter, position, "up" or "down", how many to look at, how many to find, "rows", "members" or "count"
-- Answers: the position reached, or nothing at the end; then what was found, or how many

local position, is_up, looks, most, mode = tonumber(ARGV[2]), ARGV[3] == 'up', tonumber(ARGV[4]), tonumber(ARGV[5]),
  ARGV[6]
local FEW, MANY, BYTES = 10, 200, 2 ^ 22 -- a job may be a megabyte: few are read until they prove to be small

local leading, sifting, is_told = plan()
local members = candidates(position, is_up, looks, leading)
local reached = #members == looks and members[looks] or false
if not filter.ids then members = sifted(members, sifting) end
if mode == 'count' and is_told then return {reached, #members} end

-- The text is looked for in what is stored, as it is stored: where it is nowhere, nothing has to be unpacked.
local function has_bytes(record, body)
  return not filter.text or record and (record:find(filter.text, 1, true) or body and body:find(filter.text, 1, true))
end

local found, found_records = {}, {}
local first, at_once, bytes = 1, FEW, 0
while first <= #members and #found < most and bytes < BYTES do
  local some = {unpack(members, first, math.min(first + at_once - 1, #members))}
  local records = records_of(some, #some)
  local bodies = filter.text and call('HMGET', BODIES, unpack(some)) or {}
  for i, member in ipairs(some) do
    local record, body = records[i], bodies[i]
    bytes = bytes + #(record or '') + #(body or '')
    local j = #found < most and has_bytes(record, body) and job_of(record)
    if j and matches(member, j) then
      found[#found + 1], found_records[#found + 1] = member, record
      if #found == most then reached = member end
    end
  end
  first, at_once = first + #some, math.min(2 * at_once, MANY)
  if bytes >= BYTES and #found < most and first <= #members then reached = some[#some] end
end
local answer = #found
if mode == 'rows' then
  answer = rows_of(found, #found, found_records)
elseif mode == 'members' then
  answer = found
end
return {reached, answer}
