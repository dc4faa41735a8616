-- What does not fit together: running jobs whose worker never signed on, and jobs that are not in every place.
-- Answers: how many running jobs have no worker, then how many jobs there are by ids, jobs, bodies and states

local members, stray = call('ZRANGE', LEASES, 0, -1), 0
for _, record in ipairs(records_of(members, #members)) do
  local j = job_of(record)
  if j and j.worker and call('HEXISTS', P .. ':workers', j.worker) == 0 then stray = stray + 1 end
end
local count = #members
for state in pairs(PLACES) do count = count + call('ZCARD', named('state', state)) end
return {stray, call('HLEN', IDS), call('HLEN', JOBS), call('HLEN', BODIES), count}
