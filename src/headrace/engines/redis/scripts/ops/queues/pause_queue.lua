-- Pause or resume a queue; an unknown queue is created.
-- ARGV: now, name, "1" to pause it

guard()
call('HSETNX', QUEUES, ARGV[2], ARGV[1])
call(ARGV[3] == '1' and 'SADD' or 'SREM', P .. ':paused', ARGV[2])
local kind = ARGV[3] == '1' and 'queue.paused' or 'queue.resumed'
store_page('[["' .. kind .. '",' .. ARGV[1] .. ',' .. json(ARGV[2]) .. ']]', 1, ARGV[1])
ring({['work:' .. ARGV[2]] = true})
return 1
