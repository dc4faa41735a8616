-- Charges running jobs the units that they have used, before their outcomes are settled; refused ones change nothing.
-- As in core/queues/rates.py: corrected. `exchange` describes ARGV.

local moments_by_bucket = {}

local function charge_window(window, charged, used, began_at, ...)
  local bucket = bucket_of(window, ...)
  local moment = moments_by_bucket[bucket] or tonumber(call('ZSCORE', RATE_BUCKETS, bucket) or 0)
  local _, base = read_window(window, moment, 1000 * now, 1)
  local begin = window.period and 1000 * now - 1000 * now % window.period or 0
  if used > charged then
    moment = after_starts(window, base, used - charged, 1000 * now)
  elseif 1000 * began_at >= begin then -- units of a period that is over are not given to the next one
    moment = moment - (charged - used) * window.every
  end
  moments_by_bucket[bucket] = moment
end

local function charge_used_units(member, j, used)
  local known = call('HGET', QUEUES, j.queue)
  local of_queue, of_task = rules_in((known or ''):match(' (.*)') or '{}'), rules_in(call('HGET', TASKS, j.task) or '{}')
  local charged = cost_of(member)
  local function charge(rate, ...)
    for _, window in ipairs(rate and windows_of(rate) or {}) do
      if window.units then charge_window(window, charged, used, j.started_at or now, ...) end
    end
  end
  charge(of_queue.rate, 'queue', j.queue)
  charge(of_task.rate, 'task', j.task)
  for _, gate in ipairs(gates_of(j.lane)) do
    if gate:sub(1, 1) == 'r' then charge(key_rules(of_queue, gate:sub(3)).rate, 'key', j.queue, gate:sub(3)) end
  end
end

for _, report in ipairs(cmsgpack.unpack(ARGV[21])) do
  local member = call('HGET', IDS, report[1])
  local j = member and job_of(call('HGET', JOBS, member))
  if j and j.state == 'running' and j.version == report[2] then charge_used_units(member, j, report[3]) end
end
for bucket, moment in pairs(moments_by_bucket) do add(RATE_BUCKETS, text(moment), bucket) end
