-- Dead letters by their ids, or the newest of each of these jobs.
-- ARGV: "ids" or "jobs", count, ids
-- Answers: ids, and the stored record of each

local count, ids = tonumber(ARGV[2]), cmsgpack.unpack(ARGV[3])
if ARGV[1] == 'jobs' then
  local latest, known = read_in_parts('HMGET', P .. ':dead_latest', ids, count), {}
  for i = 1, count do
    if latest[i] then known[#known + 1] = latest[i] end
  end
  ids, count = known, #known
end
return {ids, read_in_parts('HMGET', P .. ':dead_letters', ids, count)}
