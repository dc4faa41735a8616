-- Everything that was filed about some jobs; nothing at all where none of them has a history, as most jobs have none.
-- ARGV: the numbers of the jobs, twelve digits each

local keys, n = {}, #ARGV[1] / 12
for i = 1, n do keys[i] = P .. ':h:' .. string.sub(ARGV[1], 12 * i - 11, 12 * i) end
if call('EXISTS', unpack(keys)) == 0 then return {} end
for i = 1, n do keys[i] = call('LRANGE', keys[i], 0, -1) end
return keys
