-- Replace or clear the store status, if it is the expected one.
-- ARGV: the expected and the new status (each an array of kind, other and at, or empty)
-- Answers: 1, or 0 if the status is another one

local before, after = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])
local status = call('HMGET', P .. ':status', 'kind', 'other', 'at')
for i = 1, 3 do
  if (status[i] or nil) ~= (before[i] and string.format(i == 3 and '%.0f' or '%s', before[i])) then return 0 end
end
if #after == 0 then
  call('DEL', P .. ':status')
else
  guard()
  call('HSET', P .. ':status', 'kind', after[1], 'other', after[2], 'at', string.format('%.0f', after[3]))
end
ring({work = true})
return 1
