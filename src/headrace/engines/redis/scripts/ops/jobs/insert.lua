-- Insert jobs. With `all_or_nothing` a taken id means that nothing is stored.
-- ARGV: now, all_or_nothing, mark, again, count, ids, jobs (array of NewJob), whether to append events
-- Answers: the positions of those whose id was taken; or "moved" and the address of the store that this one moved to;
-- or the answer of `full_queue`

local now, all_or_nothing, mark, again = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4] == '1'
local count, given, jobs = tonumber(ARGV[5]), cmsgpack.unpack(ARGV[6]), ARGV[7]

local status = moved_to()
if status then return status end

local known = read_in_parts('HMGET', IDS, given, count)
if count == 1 and not known[1] and insert_one(jobs, mark, now, ARGV[8] == '1') then return {} end
return insert_batch()(given, known, jobs, now, all_or_nothing, mark, again)
