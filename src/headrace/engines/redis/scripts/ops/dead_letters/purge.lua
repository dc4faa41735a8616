-- Delete dead letters of one status that were resolved, or else entered, before a time. No guard before it: a script
-- that frees memory must run when there is none left.
-- ARGV: status, after, last, before, how many to read, how many to delete
-- Answers: the id reached, or nothing at the end; how many were deleted

local status, after, last, before = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local scan_limit, most = tonumber(ARGV[5]), tonumber(ARGV[6])

local ids = call('ZRANGEBYLEX', P .. ':dead:' .. status, '(' .. after, '(' .. last, 'LIMIT', 0, scan_limit)
local records = read_in_parts('HMGET', DEAD_LETTERS, ids, #ids)
local removed, reached, fingerprints = 0, #ids, {}
for i = 1, #ids do
  local l = records[i] and read_dead_letter(records[i], ids[i])
  if l and (l.resolved_at or l.entered_at) < before then
    remove_dead_letter(l)
    fingerprints[l.fingerprint], removed = true, removed + 1
    if removed == most then
      reached = i
      break
    end
  end
end
flush()
drop_unused_fingerprints(fingerprints)
local is_end = reached == #ids and #ids < scan_limit
return {not is_end and ids[reached] or false, removed}
