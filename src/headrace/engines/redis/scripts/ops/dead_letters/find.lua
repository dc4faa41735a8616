-- The next matching dead letters of one status, newest first, from the smallest set that has them all.
-- ARGV: status, first, last, how many to read, how many to find, "rows" or "count", filter: values by the order of
-- KINDS, false for any
-- Answers: the id reached, or nothing at the end; the records found, or their number; their ids

local status, first, last, looks, most, mode = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local wanted = cmsgpack.unpack(ARGV[7])

local key, asked = P .. ':dead:' .. status, 0
local size = call('ZCARD', key)
for i, kind in ipairs(KINDS) do
  if wanted[i] ~= false then
    asked = asked + 1
    local one = shelf(status, kind, wanted[i])
    local of_one = call('ZCARD', one)
    if asked == 1 or of_one < size then key, size = one, of_one end
  end
end
local from, to = first == '' and '-' or '[' .. first, '(' .. last
if mode == 'count' and asked < 2 then return {false, call('ZLEXCOUNT', key, from, to), {}} end

local ids = call('ZREVRANGEBYLEX', key, to, from, 'LIMIT', 0, looks)
local letters = ask_in_parts('HMGET', DEAD_LETTERS, ids, #ids)
local found, found_ids, reached = {}, {}, #ids
for i = 1, #ids do
  local task, queue, reason, fingerprint, requeues, _
  if letters[i] then
    _, _, task, queue, reason, _, _, _, _, _, fingerprint, requeues = unpack(salvage(letters[i], 12, 1), 1, 12)
  end
  local matches = letters[i]
  for k, value in ipairs({task, queue, reason, fingerprint, requeues}) do
    if wanted[k] ~= false and wanted[k] ~= value then matches = false end
  end
  if matches then
    found[#found + 1] = letters[i]
    found_ids[#found] = ids[i]
    if #found == most then
      reached = i
      break
    end
  end
end
local is_end = reached == #ids and #ids < looks
return {not is_end and ids[reached] or false, mode == 'rows' and found or #found, found_ids}
