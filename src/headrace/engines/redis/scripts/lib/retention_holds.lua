-- Reasons that hold a finished job in the store: a pending dead letter of its own or of a job that would run with it
-- again, an open child, an open job of its flow.
--
-- A flow may have a hundred thousand jobs, and a job as many children: they are compared as sets, in parts, and the
-- first hit is enough. Reading each record would take the server a second.

local HOLD_BATCH_SIZE = 1000
local busy_flows = {}
local no_pending_dead_letters = call('EXISTS', P .. ':dead_pending') == 0

local function has_pending_dead_letter(id)
  return not no_pending_dead_letters and call('HEXISTS', P .. ':dead_pending', id) == 1
end

-- Whether one of these jobs is open, or has a pending dead letter.
local function any_holds(members)
  for first = 1, #members, HOLD_BATCH_SIZE do
    local part = {unpack(members, first, math.min(first + HOLD_BATCH_SIZE - 1, #members))}
    for _, record in ipairs(records_of(part, #part)) do
      local is_whole, _, state = pcall(take, record, 1)
      if is_whole and not FINAL[state] then return true end
      if is_whole and state == 'failed' and not no_pending_dead_letters then
        local j = job_of(record)
        if j and has_pending_dead_letter(j.id) then return true end
      end
    end
  end
  return false
end

-- Whether a job of the flow is open or has a pending dead letter. Each flow is checked once.
local function is_busy(flow)
  if busy_flows[flow] == nil then
    local key = key_of('flow', flow)
    -- The last jobs of a flow mostly end last.
    local is_found = any_holds(call('ZREVRANGE', key, 0, 99))
    for state in pairs(STATE_SETS) do
      if not is_found and not FINAL[state] then
        local open = state == 'running' and LEASES or key_of('state', state)
        is_found = call('EXISTS', open) == 1 and #call('ZINTER', 2, key, open) > 0
      end
    end
    if not is_found and not no_pending_dead_letters then
      is_found = any_holds(call('ZINTER', 2, key, key_of('state', 'failed')))
    end
    busy_flows[flow] = is_found
  end
  return busy_flows[flow]
end

-- Whether it was cancelled with an ancestor whose dead letter is pending: a requeue would let it run.
local function would_run_again(member, j)
  if no_pending_dead_letters then return false end
  local level, seen = {}, {}
  local function climb(from, lost)
    if lost.state ~= 'cancelled' or lost.reason ~= $Text.PARENT_FAILED then return end
    for _, parent in ipairs(call('HKEYS', P .. ':parents:' .. from)) do
      if not seen[parent] then seen[parent], level[#level + 1] = true, parent end
    end
  end
  climb(member, j)
  while #level > 0 do
    local parents = level
    level = {}
    for i, record in ipairs(records_of(parents, #parents)) do
      local parent = job_of(record)
      if parent and parent.state == 'failed' and has_pending_dead_letter(parent.id) then return true end
      if parent then climb(parents[i], parent) end
    end
  end
  return false
end

local function is_held(member, j, flow, has_dependencies)
  return has_pending_dead_letter(j.id)
    or (flow and is_busy(flow))
    or (has_dependencies == 1 and any_holds(call('HKEYS', P .. ':children:' .. member)))
    or (not flow and would_run_again(member, j)) or false
end
