-- Insert jobs. With `whole` a taken id means that nothing is stored.
-- ARGV: now, whole, mark, again, count, ids, jobs (array of NewJob), whether to append events
-- Answers: the positions of those whose id was taken; or "moved" and the address of the store that this one moved to;
-- or the answer of `full_queue`

local now, whole, mark, again = tonumber(ARGV[1]), ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4] == '1'
local count, given, jobs = tonumber(ARGV[5]), cmsgpack.unpack(ARGV[6]), ARGV[7]

local door = moved_to()
if door then return door end

local known = ask_in_parts('HMGET', IDS, given, count)
local seen, skip, taken, fresh = {}, {}, {}, count
for i = 1, count do
  local id = given[i]
  if seen[id] or (known[i] and not (again and is_own(known[i], mark))) then
    taken[#taken + 1] = i
  end
  if seen[id] or known[i] then
    skip[i] = true
    fresh = fresh - 1
  end
  seen[id] = true
end
if fresh == 0 or (whole and #taken > 0) then return taken end

tells = ARGV[8] == '1'
submit_all(jobs, count, skip, numbers(fresh), mark)
local full = full_queue()
if full then return full end
rings_anyway = next(coming) ~= nil
flush_births()
announce(now, {})
return taken
