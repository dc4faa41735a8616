-- Replace the rules of a queue; an unknown queue is created.
-- ARGV: now, name, QueueRules in JSON, or nothing for none

guard()
local known = call('HGET', QUEUES, ARGV[2])
local created_at = known and known:match('^%S+') or ARGV[1]
call('HSET', QUEUES, ARGV[2], ARGV[3] == '' and created_at or created_at .. ' ' .. ARGV[3])
call(ARGV[3] == '' and 'SREM' or 'SADD', QUEUES_WITH_RULES, ARGV[2])
ring({work = true})
return 1
