-- Pause a queue or let it go on; a queue that nobody knew is known afterwards.
-- ARGV: now, name, "1" to pause it

guard()
call('HSETNX', QUEUES, ARGV[2], ARGV[1])
call(ARGV[3] == '1' and 'SADD' or 'SREM', P .. ':paused', ARGV[2])
ring({['work:' .. ARGV[2]] = true})
return 1
