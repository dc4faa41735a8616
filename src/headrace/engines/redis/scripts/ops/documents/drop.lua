-- Delete the first documents of a kind. No guard: it frees memory.
-- ARGV: kind, the key before which they are, how many
-- Answers: how many there were

local keys = call('ZRANGEBYLEX', P .. ':document_keys:' .. ARGV[1], '-', '(' .. ARGV[2], 'LIMIT', 0, tonumber(ARGV[3]))
for i = 1, #keys do delete_document(ARGV[1], keys[i]) end
return #keys
