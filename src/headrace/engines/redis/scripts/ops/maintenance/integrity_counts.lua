-- Inconsistencies, and jobs that no worker handles.
-- ARGV: the time before which something is late, how many waiting jobs to read
-- Answers: the numbers of running jobs without a worker, of leases long expired, of jobs that should have been
-- promoted, of waiting jobs among the first that wait for no parent; then the numbers of ids, jobs, payloads and states

local late, scan_limit = ARGV[1], tonumber(ARGV[2])
local members, without_worker = call('ZRANGE', LEASES, 0, -1), 0
for _, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j and j.worker and call('HEXISTS', P .. ':workers', j.worker) == 0 then without_worker = without_worker + 1 end
end
local count = #members
for state in pairs(STATE_SETS) do count = count + call('ZCARD', key_of('state', state)) end

local without_parent, waiting = 0, call('ZRANGE', key_of('state', 'waiting'), 0, scan_limit - 1)
for i, record in ipairs(records_of(waiting, #waiting)) do
  local j = job_of(record)
  if j and j.reason ~= $Text.HELD and call('SCARD', blocks_of(waiting[i])) == 0 then without_parent = without_parent + 1 end
end
return {
  without_worker, call('ZCOUNT', LEASES, '-inf', late), call('ZCOUNT', DUE, '-inf', late), without_parent,
  call('HLEN', IDS), call('HLEN', JOBS), call('HLEN', PAYLOADS), count,
}
