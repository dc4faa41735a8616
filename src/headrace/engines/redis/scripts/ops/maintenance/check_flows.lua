-- Flows without a job.
-- ARGV: the position of the first one, how many to read, 1 if they are to be removed
-- Answers: how many were read, how many have no job

local first, scan_limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local ids, lost = call('ZRANGE', P .. ':flow_ids', first, first + scan_limit - 1), 0
if call('EXISTS', P .. ':status') == 1 then return {#ids, 0} end -- during a transfer flows come before their jobs
for _, id in ipairs(ids) do
  if call('EXISTS', key_of('flow', id)) == 0 then
    lost = lost + 1
    if ARGV[3] == '1' then
      call('HDEL', P .. ':flows', id)
      call('ZREM', P .. ':flow_ids', id)
    end
  end
end
return {#ids, lost}
