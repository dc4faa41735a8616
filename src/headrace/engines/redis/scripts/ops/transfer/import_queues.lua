-- Store queues with their settings, over existing ones of the same names.
-- ARGV: name, "1" if paused, created_at with its rules, ...

guard()
for i = 1, #ARGV, 3 do
  call('HSET', QUEUES, ARGV[i], ARGV[i + 2])
  call(ARGV[i + 2]:find(' ', 1, true) and 'SADD' or 'SREM', QUEUES_WITH_RULES, ARGV[i])
  call(ARGV[i + 1] == '1' and 'SADD' or 'SREM', P .. ':paused', ARGV[i])
end
return 1
