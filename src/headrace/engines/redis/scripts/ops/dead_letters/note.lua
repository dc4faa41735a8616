-- Add a note to a dead letter.
-- ARGV: id, remark
-- Answers: 1, or 0 if it does not exist

local packed, remark = call('HGET', DEAD_LETTERS, ARGV[1]), ARGV[2]
if not packed then return 0 end
guard()
local l = read_dead_letter(packed, ARGV[1])
drop_dead_indexes(l)
l.notes = l.notes and l.notes:sub(1, -2) .. ',' .. remark .. ']' or '[' .. remark .. ']'
put_dead_letter(l)
flush()
return 1
