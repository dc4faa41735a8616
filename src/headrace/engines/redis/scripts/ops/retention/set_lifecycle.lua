-- Replace lifecycle policies.
-- ARGV: "declared" or "override", then kind and name, the policy in JSON or nothing for none, ...

guard()
local key = P .. ':policies:' .. ARGV[1]
for i = 2, #ARGV, 2 do
  if ARGV[i + 1] == '' then call('HDEL', key, ARGV[i]) else call('HSET', key, ARGV[i], ARGV[i + 1]) end
end
return 1
