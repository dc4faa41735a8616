-- The number of matching jobs, if the sizes of sets give it; otherwise nothing, and they have to be counted.
-- ARGV: filter

if filter.ids or filter.text or filter.since or filter.before then return false end
if filter.worker then
  if wanted or filter.queue or filter.task or filter.tag or filter.flow or call('ZCARD', LEASES) > MAX_SORTED_SIZE then
    return false
  end
  local running, size = call('ZRANGE', LEASES, 0, -1), call('ZCARD', key_of('worker', filter.worker))
  for _, record in ipairs(records_of(running, #running)) do
    local j = job_of(record)
    if j and j.worker == filter.worker then size = size + 1 end
  end
  return size
end
if wanted then
  if filter.task or filter.tag or filter.flow then return false end
  local by_number, others
  if filter.queue then by_number, others = by_queue_and_state() else by_number, others = by_state(wanted) end
  return size_of(by_number) + size_of(others)
end
local sets = {}
for _, name in ipairs({'queue', 'task', 'tag', 'flow'}) do
  if filter[name] then sets[#sets + 1] = key_of(name, filter[name]) end
end
if #sets > 1 then return false end
return sets[1] and call('ZCARD', sets[1]) or call('HLEN', IDS)
