-- The next matching dead letters of one status, newest first, from the smallest set that has them all.
-- ARGV: status, first, last, how many to read, how many to find, "rows" or "count", filter: values by the order of
-- KINDS, false for any
-- Answers: the id reached, or nothing at the end; the records found, or their number; their ids

local status, first, last, scan_limit, most, mode =
  ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local wanted = cmsgpack.unpack(ARGV[7])

local key, condition_count = P .. ':dead:' .. status, 0
local size = call('ZCARD', key)
for i, kind in ipairs(KINDS) do
  if wanted[i] ~= false then
    condition_count = condition_count + 1
    local one = dead_index_key(status, kind, wanted[i])
    local of_one = call('ZCARD', one)
    if condition_count == 1 or of_one < size then key, size = one, of_one end
  end
end
local from, to = first == '' and '-' or '[' .. first, '(' .. last
if mode == 'count' and condition_count < 2 then return {false, call('ZLEXCOUNT', key, from, to), {}} end

local ids = call('ZREVRANGEBYLEX', key, to, from, 'LIMIT', 0, scan_limit)
local records = read_in_parts('HMGET', DEAD_LETTERS, ids, #ids)
local found, found_ids, reached = {}, {}, #ids
for i = 1, #ids do
  local task, queue, reason, fingerprint, requeues, _
  if records[i] then
    _, _, task, queue, reason, _, _, _, _, _, fingerprint, requeues = unpack(salvage(records[i], 12, 1), 1, 12)
  end
  local matches = records[i]
  for k, value in ipairs({task, queue, reason, fingerprint, requeues}) do
    if wanted[k] ~= false and wanted[k] ~= value then matches = false end
  end
  if matches then
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
