-- The next jobs that match a filter.
-- ARGV: filter, position, "up" or "down", how many to look at, how many to find, "rows", "members" or "count"
-- Answers: the position reached, or nothing at the end; then what was found, or how many

local position, is_up, looks, most, mode = tonumber(ARGV[2]), ARGV[3] == 'up', tonumber(ARGV[4]), tonumber(ARGV[5]),
  ARGV[6]

local members = candidates(position, is_up, looks)
local count = #members
local records = records_of(members, count)
local found, found_records, reached = {}, {}, count
for i = 1, count do
  local j = job_of(records[i])
  if j and matches(members[i], j) then
    found[#found + 1], found_records[#found + 1] = members[i], records[i]
    if #found == most then
      reached = i
      break
    end
  end
end
local is_end = reached == count and count < looks
local answer = #found
if mode == 'rows' then
  answer = rows_of(found, #found, found_records)
elseif mode == 'members' then
  answer = found
end
return {not is_end and members[reached] or false, answer}
