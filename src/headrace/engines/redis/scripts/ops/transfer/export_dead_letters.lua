-- The next dead letters by id.
-- ARGV: after, limit
-- Answers: ids, and the stored record of each

local ids = call('ZRANGEBYLEX', P .. ':dead_ids', '(' .. ARGV[1], '+', 'LIMIT', 0, ARGV[2])
return {ids, read_in_parts('HMGET', P .. ':dead_letters', ids, #ids)}
