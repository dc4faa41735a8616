-- Reasons that hold a finished job in the store: a pending dead letter of its own or of a job that would run with it
-- again, an open child, an open job of its flow.
--
-- A flow may have a hundred thousand jobs, and a job as many children: they are compared as sets, in parts, and the
-- first hit is enough. Reading each record would take the server a second.

local AT_A_TIME = 1000
local busy_flows = {}
local is_desk_empty = call('EXISTS', P .. ':dead_pending') == 0

local function is_on_desk(id)
  return not is_desk_empty and call('HEXISTS', P .. ':dead_pending', id) == 1
end

-- Whether one of these jobs is open, or has a pending dead letter.
local function any_matters(members)
  for first = 1, #members, AT_A_TIME do
    local part = {unpack(members, first, math.min(first + AT_A_TIME - 1, #members))}
    for _, record in ipairs(records_of(part, #part)) do
      local is_whole, _, state = pcall(take, record, 1)
      if is_whole and not FINAL[state] then return true end
      if is_whole and state == 'failed' and not is_desk_empty then
        local j = job_of(record)
        if j and is_on_desk(j.id) then return true end
      end
    end
  end
  return false
end

-- Whether a job of the flow is open or has a pending dead letter. Each flow is checked once.
local function is_busy(flow)
  if busy_flows[flow] == nil then
    local key = named('flow', flow)
    -- The last jobs of a flow mostly end last.
    local is_found = any_matters(call('ZREVRANGE', key, 0, 99))
    for state in pairs(PLACES) do
      if not is_found and not FINAL[state] then
        local open = state == 'running' and LEASES or named('state', state)
        is_found = call('EXISTS', open) == 1 and #call('ZINTER', 2, key, open) > 0
      end
    end
    if not is_found and not is_desk_empty then
      is_found = any_matters(call('ZINTER', 2, key, named('state', 'failed')))
    end
    busy_flows[flow] = is_found
  end
  return busy_flows[flow]
end

-- Whether it was cancelled with an ancestor whose dead letter is pending: a requeue would let it run.
local function is_cut_off(member, j)
  if is_desk_empty then return false end
  local level, seen = {}, {}
  local function climb(from, lost)
    if lost.state ~= 'cancelled' or lost.reason ~= 'parent_failed' then return end
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
      if parent and parent.state == 'failed' and is_on_desk(parent.id) then return true end
      if parent then climb(parents[i], parent) end
    end
  end
  return false
end

local function is_held(member, j, flow, is_kin)
  return is_on_desk(j.id)
    or (flow and is_busy(flow))
    or (is_kin == 1 and any_matters(call('HKEYS', P .. ':children:' .. member)))
    or (not flow and is_cut_off(member, j)) or false
end
