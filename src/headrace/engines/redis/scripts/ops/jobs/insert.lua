-- Insert jobs. With `all_or_nothing` a taken id means that nothing is stored.
-- ARGV: now, all_or_nothing, mark, again, count, ids, jobs (array of NewJob), whether to append events
-- Answers: the positions of those whose id was taken; or "moved" and the address of the store that this one moved to;
-- or the answer of `full_queue`

local now, all_or_nothing, mark, again = tonumber(ARGV[1]), ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4] == '1'
local count, given, jobs = tonumber(ARGV[5]), cmsgpack.unpack(ARGV[6]), ARGV[7]

local status = moved_to()
if status then return status end

local known = read_in_parts('HMGET', IDS, given, count)
local seen, skip, taken, fresh_count = {}, {}, {}, count
for i = 1, count do
  local id = given[i]
  if seen[id] or (known[i] and not (again and is_own_insert(known[i], mark))) then
    taken[#taken + 1] = i
  end
  if seen[id] or known[i] then
    skip[i] = true
    fresh_count = fresh_count - 1
  end
  seen[id] = true
end
if fresh_count == 0 or (all_or_nothing and #taken > 0) then return taken end

emits_events = ARGV[8] == '1'
submit_all(jobs, count, skip, reserve_numbers(fresh_count), mark)
local full = full_queue()
if full then return full end
will_publish = next(queue_growth) ~= nil
flush_new_jobs()
announce(now, {})
return taken
