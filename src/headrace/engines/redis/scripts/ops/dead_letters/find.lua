-- The next matching dead letters of one status, or of all, by id, from the smallest set that has them all.
-- ARGV: status or nothing for all, first, last, how many to read, how many to find, "rows" or "count", "up" or "down",
-- the time before which they ended or nothing, filter: values by the order of KINDS, false for any; without a status,
-- all false
-- Answers: the id reached, or nothing at the end; the records found, or their number; their ids

local status, first, last, scan_limit, most, mode =
  ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local before, wanted = tonumber(ARGV[8]), cmsgpack.unpack(ARGV[9])

local key, condition_count = status == '' and P .. ':dead_ids' or P .. ':dead:' .. status, 0
local size = call('ZCARD', key)
for i, kind in ipairs(KINDS) do
  if wanted[i] ~= false then
    condition_count = condition_count + 1
    local one = dead_index_key(status, kind, wanted[i])
    local of_one = call('ZCARD', one)
    if condition_count == 1 or of_one < size then key, size = one, of_one end
  end
end
local from, to = first == '' and '-' or first, '(' .. last
if mode == 'count' and condition_count < 2 and not before then return {false, call('ZLEXCOUNT', key, from, to), {}} end

local ids
if ARGV[7] == 'up' then
  ids = call('ZRANGEBYLEX', key, from, to, 'LIMIT', 0, scan_limit)
else
  ids = call('ZREVRANGEBYLEX', key, to, from, 'LIMIT', 0, scan_limit)
end
local records = read_in_parts('HMGET', DEAD_LETTERS, ids, #ids)
local found, found_ids, reached = {}, {}, #ids
for i = 1, #ids do
  local values = salvage(records[i] or '', #$DeadLetterRow, #$DeadLetterRow:head)
  local $DeadLetterRow = unpack(values, 1, #$DeadLetterRow)
  if records[i] and dead_letter_matches($DeadLetterRow{}, wanted, before) then
    found[#found + 1] = records[i]
    found_ids[#found] = ids[i]
    if #found == most then
      reached = i
      break
    end
  end
end
local is_end = reached == #ids and #ids < scan_limit
return {not is_end and ids[reached] or false, mode == 'rows' and found or #found, found_ids}
