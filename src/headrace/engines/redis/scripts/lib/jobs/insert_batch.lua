-- Any number of jobs, of any kind, that are inserted together.

-- Insert those of the jobs whose id is free. The answer is that of the script `insert`.
local function insert_batch(given, known, jobs, now, all_or_nothing, mark, again)
  local count, seen, skip, taken = #given, {}, {}, {}
  local fresh_count = count
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
end

return insert_batch
