-- Dependencies: the effects of finished jobs on others. Everything here comes after the first `flush`, when the records
-- have the final states; and then level by level, because jobs that end by it have children of their own.
-- A finished job is a table with its `member` and `state`, and unless it completed its `id`, `task` and `reason`.

local END_TEXTS = {expired = 'expired', deleted = 'was deleted'}

local function parents_of(member) return P .. ':parents:' .. member end
local function children_of(member) return P .. ':children:' .. member end
local function blocks_of(member) return P .. ':blocks:' .. member end

local function dependency_flags(members, n)
  return read_in_parts('SMISMEMBER', HAS_DEPENDENCIES, members, n)
end

local function any_dependencies()
  return call('EXISTS', HAS_DEPENDENCIES) == 1
end

-- Cases are pending decisions about children, by their numbers.
local function new_cases()
  return {list = {}, of = {}}
end

local function case_of(cases, child)
  local case = cases.of[child]
  if not case then
    case = {child = child, freed = {}}
    cases.of[child], cases.list[#cases.list + 1] = case, case
  end
  return case
end

-- Record at the child how its parent ended.
local function record_end(cases, child, policy, parent)
  local case = case_of(cases, child)
  if parent.state == 'completed' or policy == 'r' or policy == 'o' then
    case.freed[#case.freed + 1] = parent.member
  elseif call('SISMEMBER', blocks_of(child), parent.member) == 0 then
    return -- it was released from this parent
  elseif policy == 'h' then
    case.is_held = true
  elseif not case.cancelled_by or parent.member < case.cancelled_by.member then
    case.cancelled_by = parent
  end
end

-- Record at a job those of its open parents that had ended before it waited.
local function record_past_ends(cases, child)
  case_of(cases, child)
  local blocking = call('SMEMBERS', blocks_of(child))
  local policies = read_in_parts('HMGET', parents_of(child), blocking, #blocking)
  for i, record in ipairs(records_of(blocking, #blocking)) do
    local parent = job_of(record)
    if parent and FINAL[parent.state] then
      parent.member = blocking[i]
      record_end(cases, child, policies[i], parent)
    end
  end
end

local function cancel_child(member, j, now, parent)
  local how = parent.state == 'failed' and 'failed' or END_TEXTS[parent.reason] or 'was cancelled'
  local detail = 'its parent ' .. parent.id .. ' (' .. parent.task .. ') ' .. how
  record_history(member, j, now, 'cancel', 'cancelled', detail, j.finished_at)
  move(member, j, now, function() j.state, j.finished_at, j.reason = 'cancelled', now, $Text.PARENT_FAILED end)
end

-- Whether it is to run only if a parent fails, and none has.
local function is_not_needed(member)
  local parents, members = call('HGETALL', parents_of(member)), {}
  for i = 1, #parents, 2 do
    if parents[i + 1] == 'o' then members[#members + 1] = parents[i] end
  end
  for _, record in ipairs(records_of(members, #members)) do
    local parent = job_of(record)
    -- A parent without a record is being deleted, which counts as its cancellation.
    if not parent or parent.state == 'failed' or parent.state == 'cancelled' then return false end
  end
  return #members > 0
end

local function cancel_not_needed(member, j, now)
  record_history(member, j, now, 'cancel', 'cancelled', $Text.NOT_NEEDED, j.finished_at)
  move(member, j, now, function() j.state, j.finished_at, j.reason = 'cancelled', now, $Text.PARENTS_COMPLETED end)
end

local function unblock(member, j, now)
  local target = j.finished_at and 'completed' or j.run_at > now and 'scheduled' or 'pending'
  record_history(member, j, now, 'unblock', target, $Text.UNBLOCKED, j.finished_at)
  move(member, j, now, function()
    j.state, j.reason, j.finished_at = target, nil, j.finished_at and now or nil
  end)
end

-- Decide the cases; the children that ended by it. To be flushed.
local function decide_cases(cases, now, messages)
  local members, ended = {}, {}
  for i, case in ipairs(cases.list) do
    members[i] = case.child
    write_in_parts('SREM', blocks_of(case.child), case.freed, #case.freed)
  end
  local records = records_of(members, #members)
  for i, case in ipairs(cases.list) do
    local member, j = case.child, job_of(records[i])
    if j and j.state == 'waiting' then
      if case.cancelled_by then
        cancel_child(member, j, now, case.cancelled_by)
      elseif j.reason ~= $Text.HELD and call('EXISTS', blocks_of(member)) == 0 then
        if not j.finished_at and is_not_needed(member) then
          cancel_not_needed(member, j, now)
        else
          unblock(member, j, now)
        end
        -- Also for jobs due later: a worker needs to know the time.
        if not FINAL[j.state] then messages['work:' .. j.queue] = true end
      elseif case.is_held and j.reason ~= $Text.HELD then
        j.reason = $Text.HELD
        put_record(member, encode_job(j))
      end
      if FINAL[j.state] then
        j.member, ended[#ended + 1], messages.done = member, j, true
      end
    end
  end
  return ended
end

-- Decide about the dependents of finished jobs, besides the given cases, and of the jobs that end by it.
local function propagate(ended, now, messages, cases)
  cases = cases or new_cases()
  repeat
    local members = {}
    for i, parent in ipairs(ended) do members[i] = parent.member end
    local has_dependencies = dependency_flags(members, #members)
    for i, parent in ipairs(ended) do
      local children = has_dependencies[i] == 1 and call('HGETALL', children_of(parent.member)) or {}
      for k = 1, #children, 2 do record_end(cases, children[k], children[k + 1], parent) end
    end
    ended = decide_cases(cases, now, messages)
    flush()
    cases = new_cases()
  until #ended == 0
end
