-- Inconsistencies, and jobs that nobody handles.
-- ARGV: the time before which something is late, how many waiting jobs to read
-- Answers: the numbers of running jobs without a worker, of leases long expired, of jobs that should have been
-- promoted, of waiting jobs among the first that wait for no parent; then the numbers of ids, jobs, bodies and states

local late, looks = ARGV[1], tonumber(ARGV[2])
local members, stray = call('ZRANGE', LEASES, 0, -1), 0
for _, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j and j.worker and call('HEXISTS', P .. ':workers', j.worker) == 0 then stray = stray + 1 end
end
local count = #members
for state in pairs(PLACES) do count = count + call('ZCARD', named('state', state)) end

local forlorn, waiting = 0, call('ZRANGE', named('state', 'waiting'), 0, looks - 1)
for i, record in ipairs(records_of(waiting, #waiting)) do
  local j = job_of(record)
  if j and j.reason ~= 'held' and call('SCARD', blocks_of(waiting[i])) == 0 then forlorn = forlorn + 1 end
end
return {
  stray, call('ZCOUNT', LEASES, '-inf', late), call('ZCOUNT', DUE, '-inf', late), forlorn,
  call('HLEN', IDS), call('HLEN', JOBS), call('HLEN', PAYLOADS), count,
}
