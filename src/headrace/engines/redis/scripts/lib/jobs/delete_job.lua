-- Deletes a job with everything that is its own, its dependencies too, and its flow with the flow's last job. Its dead
-- letters stay.

local deleted, deleted_ids, deleted_keys = {}, {}, {}

local function delete_job(member, j, at)
  local n = #deleted + 1
  deleted[n], deleted_ids[n] = member, j.id
  deleted_keys[4 * n - 3], deleted_keys[4 * n - 2] = P .. ':history:' .. member, P .. ':logs:' .. member
  deleted_keys[4 * n - 1], deleted_keys[4 * n] = P .. ':stream:' .. member, steps_key(member)
  add_event('job.removed', at, j.queue, j.task, j.id)
  leave(member, j)
  drop(key_of('queue', j.queue), member)
  drop(key_of('task', j.task), member)
  local payload_record = call('HGET', PAYLOADS, member)
  if payload_record then
    local p = read_payload(payload_record)
    for _, tag in ipairs(tags_of(p.tags)) do drop(key_of('tag', tag), member) end
    if p.unique_key then
      drop(key_of('unique', p.unique_key), member)
      if FINAL[j.state] then drop(finished_key(j.state, p.unique_key), member) end
    end
  end
end

-- Remove the deleted jobs from the dependencies of others.
local function delete_edges()
  for _, member in ipairs(deleted) do
    for _, parent in ipairs(call('HKEYS', parents_of(member))) do call('HDEL', children_of(parent), member) end
    for _, child in ipairs(call('HKEYS', children_of(member))) do
      call('HDEL', parents_of(child), member)
      call('SREM', blocks_of(child), member)
    end
    call('UNLINK', parents_of(member), children_of(member), blocks_of(member))
  end
  write_in_parts('SREM', HAS_DEPENDENCIES, deleted, #deleted)
end

-- Flows of deleted jobs, to be checked after the deletion.
local function leave_flows()
  local flows = {}
  for i, flow in ipairs(read_in_parts('HMGET', JOB_FLOW, deleted, #deleted)) do
    if flow then
      drop(key_of('flow', flow), deleted[i])
      flows[flow] = true
    end
  end
  if next(flows) then write_in_parts('HDEL', JOB_FLOW, deleted, #deleted) end
  return flows
end

-- No guard before it: a script that frees memory must run when there is none left. Its first write deletes something.
-- `ended` are those that were not finished before, for which others may wait.
local function flush_deleted(ended, now, messages)
  write_in_parts('HDEL', IDS, deleted_ids, #deleted_ids)
  write_in_parts('HDEL', JOBS, deleted, #deleted)
  write_in_parts('HDEL', PAYLOADS, deleted, #deleted)
  for i = 1, #deleted_keys, BATCH_SIZE do
    call('UNLINK', unpack(deleted_keys, i, math.min(i + BATCH_SIZE - 1, #deleted_keys)))
  end
  local flows = leave_flows()
  flush()
  for flow in pairs(flows) do
    if call('EXISTS', key_of('flow', flow)) == 0 then
      call('HDEL', P .. ':flows', flow)
      call('ZREM', P .. ':flow_ids', flow)
    end
  end
  if any_dependencies() then
    propagate(ended, now, messages)
    delete_edges()
  end
end
