-- Store flows that do not exist yet.
-- ARGV: id, FlowRow, ...

guard()
for i = 1, #ARGV, 2 do
  if call('HSETNX', P .. ':flows', ARGV[i], ARGV[i + 1]) == 1 then call('ZADD', P .. ':flow_ids', 0, ARGV[i]) end
end
return 1
