-- Put the copy of the event stream in its place, with the pages that were appended meanwhile and without those that
-- were trimmed.
-- ARGV: the name of the copy, how many copies were used when it was begun, the most pages to add here
-- Answers: 1 if it was, 0 if another copy was used meanwhile or too many pages are missing in this one

local stream, copy, used = P .. ':events', P .. ':events_copy:' .. ARGV[1], P .. ':events_copies'
local newest = call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
local missing = newest and call('XRANGE', stream, '(' .. newest[1], '+', 'COUNT', ARGV[3] + 1)
if not missing or #missing > tonumber(ARGV[3]) or (call('GET', used) or '0') ~= ARGV[2] then
  call('DEL', copy)
  return 0
end
for _, entry in ipairs(missing) do call('XADD', copy, entry[1], unpack(entry[2])) end
call('XTRIM', copy, 'MINID', call('XRANGE', stream, '-', '+', 'COUNT', 1)[1][1])
call('PERSIST', copy)
call('RENAME', copy, stream)
call('INCR', used)
return 1
