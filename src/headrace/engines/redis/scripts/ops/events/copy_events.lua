-- Copy the pages up to an id to another stream, some of them with another text. A page that is in the copy is skipped.
-- ARGV: the name of the copy, the last id to copy, seconds the copy stays if nothing follows, then ids and their texts

guard_without_memory()
local copy, texts = P .. ':events_copy:' .. ARGV[1], {}
for i = 4, #ARGV, 2 do texts[ARGV[i]] = ARGV[i + 1] end
local newest = call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
for _, entry in ipairs(call('XRANGE', P .. ':events', newest and '(' .. newest[1] or '-', ARGV[2])) do
  local id, fields = entry[1], entry[2]
  if texts[id] then
    call('XADD', copy, id, 'page', texts[id], 'size', fields[4], 'at', fields[6], 'only', '')
  else
    call('XADD', copy, id, unpack(fields))
  end
end
call('EXPIRE', copy, ARGV[3])
return 1
