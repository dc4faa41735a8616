-- Delete dead letters of one status that were resolved, or else entered, before a time. No guard before it: a script
-- that frees memory must run when there is none left.
-- ARGV: status, after, last, before, how many to read, how many to delete
-- Answers: the id reached, or nothing at the end; how many were deleted

local status, after, last, before = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local looks, most = tonumber(ARGV[5]), tonumber(ARGV[6])

local ids = call('ZRANGEBYLEX', P .. ':dead:' .. status, '(' .. after, '(' .. last, 'LIMIT', 0, looks)
local letters = ask_in_parts('HMGET', DEAD_LETTERS, ids, #ids)
local removed, reached, prints = 0, #ids, {}
for i = 1, #ids do
  local l = letters[i] and read_letter(letters[i], ids[i])
  if l and (l.resolved_at or l.entered_at) < before then
    remove_letter(l)
    prints[l.fingerprint], removed = true, removed + 1
    if removed == most then
      reached = i
      break
    end
  end
end
flush()
forget_fingerprints(prints)
local is_end = reached == #ids and #ids < looks
return {not is_end and ids[reached] or false, removed}
