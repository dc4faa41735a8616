-- Jobs that run again, and their dependents.

-- A finished job is reopened: move it back to the open jobs of its key.
local function reopen_key(member, j)
  local payload_record = call('HGET', PAYLOADS, member)
  local key = payload_record and read_payload(payload_record).unique_key
  if key then
    drop(finished_key(j.state, key), member)
    add(key_of('unique', key), member, member)
  end
end

-- The state of a revived job: it waits for open parents, including those in `reviving`. Finished parents no longer
-- count, however they ended: an operator asked for it.
local function state_of_revived(member, reviving)
  local blocking, over, target = call('SMEMBERS', blocks_of(member)), {}, 'pending'
  for i, record in ipairs(records_of(blocking, #blocking)) do
    local parent = job_of(record)
    if parent and (reviving[blocking[i]] or not FINAL[parent.state]) then
      target = 'waiting'
    else
      over[#over + 1] = blocking[i]
    end
  end
  deferred[#deferred + 1] = function() write_in_parts('SREM', blocks_of(member), over, #over) end
  return target
end

-- Whether a parent with this policy has ended and did not complete.
local function has_lost(child, policy, blocking)
  local parents, members = call('HGETALL', parents_of(child)), {}
  for i = 1, #parents, 2 do
    local counts = not blocking or call('SISMEMBER', blocks_of(child), parents[i]) == 1
    if parents[i + 1] == policy and counts then members[#members + 1] = parents[i] end
  end
  for _, record in ipairs(records_of(members, #members)) do
    local j = job_of(record)
    if j and (j.state == 'failed' or j.state == 'cancelled') then return true end
  end
  return false
end

local function revive_child(member, j, now, parent)
  record_history(member, j, now, 'revive', 'waiting', string.format($Text.PARENT_RUNS_AGAIN, parent.id), j.finished_at)
  reopen_key(member, j)
  move(member, j, now, function()
    j.state, j.attempt, j.crashes = 'waiting', 0, 0
    j.finished_at, j.started_at, j.worker, j.result, j.result_checksum = nil, nil, nil, nil, nil
    j.progress, j.expires_at = nil, nil
    j.reason = has_lost(member, 'h', true) and $Text.HELD or nil
  end)
end

-- The children of these jobs, each with its parents among them.
local function waiting_for(revived)
  local members, children, of_child = {}, {}, {}
  for i, parent in ipairs(revived) do members[i] = parent.member end
  local has_dependencies = dependency_flags(members, #members)
  for i, parent in ipairs(revived) do
    for _, child in ipairs(has_dependencies[i] == 1 and call('HKEYS', children_of(parent.member)) or {}) do
      if not of_child[child] then of_child[child], children[#children + 1] = {}, child end
      table.insert(of_child[child], parent)
    end
  end
  return children, of_child
end

-- Make the dependents of these jobs wait again, also those that only their end had cancelled; and theirs.
local function reopen(revived, now)
  while #revived > 0 do
    local children, of_child = waiting_for(revived)
    local records = records_of(children, #children)
    revived = {}
    for i, child in ipairs(children) do
      local j = job_of(records[i])
      local was_cancelled = j and j.state == 'cancelled' and j.reason == $Text.PARENT_FAILED
      if j and (j.state == 'waiting' or was_cancelled) then
        for _, parent in ipairs(of_child[child]) do call('SADD', blocks_of(child), parent.member) end
      end
      if was_cancelled and not has_lost(child, 'c') then
        revive_child(child, j, now, of_child[child][1])
        j.member, revived[#revived + 1] = child, j
      elseif j and j.state == 'waiting' and j.reason == $Text.HELD and not has_lost(child, 'h') then
        j.reason = nil
        put_record(child, encode_job(j))
      end
    end
    flush()
  end
end
