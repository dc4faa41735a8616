-- The histories of some jobs; only of the first ones, if all together are long, since every client waits for it.
-- Nothing where none of them has a history, as most jobs have none.
-- ARGV: the numbers of the jobs, twelve digits each; how many entries are enough

local keys, n, enough = {}, #ARGV[1] / 12, tonumber(ARGV[2])
for i = 1, n do keys[i] = P .. ':history:' .. string.sub(ARGV[1], 12 * i - 11, 12 * i) end
if call('EXISTS', unpack(keys)) == 0 then return {} end
local histories = {}
for i = 1, n do
  histories[i] = call('LRANGE', keys[i], 0, -1)
  enough = enough - #histories[i]
  if enough <= 0 then break end
end
return histories
