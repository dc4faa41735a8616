-- The registered workers, and the number of running jobs of each.
-- Answers: workers (each a WorkerRow), then worker and count, ...

local rows, running = call('HVALS', P .. ':workers'), {}
local members = call('ZRANGE', LEASES, 0, -1)
for _, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j and j.worker then running[j.worker] = (running[j.worker] or 0) + 1 end
end
local counts = {}
for worker, count in pairs(running) do
  counts[#counts + 1], counts[#counts + 2] = worker, count
end
return {rows, counts}
