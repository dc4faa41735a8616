-- Deletes a job with everything that is its own, its dependencies too, and its flow with the flow's last job. Its dead
-- letters stay.

local gone, gone_ids, gone_keys = {}, {}, {}

local function erase(member, j, at)
  local n = #gone + 1
  gone[n], gone_ids[n] = member, j.id
  gone_keys[3 * n - 2], gone_keys[3 * n - 1] = P .. ':history:' .. member, P .. ':logs:' .. member
  gone_keys[3 * n] = memory(member)
  tell_event('job.removed', at, j.queue, j.task, j.id)
  leave(member, j)
  drop(named('queue', j.queue), member)
  drop(named('task', j.task), member)
  local body = call('HGET', PAYLOADS, member)
  if body then
    local _, _, _, tags, _, _, key = body_of(body)
    for _, tag in ipairs(tags_of(tags)) do drop(named('tag', tag), member) end
    if key then
      drop(named('unique', key), member)
      if FINAL[j.state] then drop(past(j.state, key), member) end
    end
  end
end

-- Remove the deleted jobs from the dependencies of others.
local function untie()
  for _, member in ipairs(gone) do
    for _, parent in ipairs(call('HKEYS', parents_of(member))) do call('HDEL', children_of(parent), member) end
    for _, child in ipairs(call('HKEYS', children_of(member))) do
      call('HDEL', parents_of(child), member)
      call('SREM', blocks_of(child), member)
    end
    call('UNLINK', parents_of(member), children_of(member), blocks_of(member))
  end
  in_parts('SREM', HAS_DEPENDENCIES, gone, #gone)
end

-- Flows of deleted jobs, to be checked after the deletion.
local function leave_flows()
  local flows = {}
  for i, flow in ipairs(ask_in_parts('HMGET', JOB_FLOW, gone, #gone)) do
    if flow then
      drop(named('flow', flow), gone[i])
      flows[flow] = true
    end
  end
  if next(flows) then in_parts('HDEL', JOB_FLOW, gone, #gone) end
  return flows
end

-- No guard before it: a script that frees memory must run when there is none left. Its first write deletes something.
-- `ended` are those that were not finished before, for which others may wait.
local function flush_erased(ended, now, messages)
  in_parts('HDEL', IDS, gone_ids, #gone_ids)
  in_parts('HDEL', JOBS, gone, #gone)
  in_parts('HDEL', PAYLOADS, gone, #gone)
  for i = 1, #gone_keys, BATCH_SIZE do
    call('UNLINK', unpack(gone_keys, i, math.min(i + BATCH_SIZE - 1, #gone_keys)))
  end
  local flows = leave_flows()
  flush()
  for flow in pairs(flows) do
    if call('EXISTS', named('flow', flow)) == 0 then
      call('HDEL', P .. ':flows', flow)
      call('ZREM', P .. ':flow_ids', flow)
    end
  end
  if any_kin() then
    follow(ended, now, messages)
    untie()
  end
end
