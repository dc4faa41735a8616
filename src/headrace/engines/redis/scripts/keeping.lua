-- What keeps a finished job in the store: a pending dead letter, an open child, an open job of its flow.

local busy_flows = {}

-- Whether a job of the flow is open. Each flow is looked at once, whatever its size.
local function is_busy(flow)
  if busy_flows[flow] == nil then
    local members, is_open = call('ZRANGE', named('flow', flow), 0, -1), false
    for i, record in ipairs(records_of(members, #members)) do
      local j = job_of(record)
      if j and not FINAL[j.state] then is_open = true end
    end
    busy_flows[flow] = is_open
  end
  return busy_flows[flow]
end

local function has_open_child(member)
  local children = call('HKEYS', P .. ':children:' .. member)
  for _, record in ipairs(records_of(children, #children)) do
    local child = job_of(record)
    if child and not FINAL[child.state] then return true end
  end
  return false
end

local function is_held(member, j, flow, is_kin)
  return call('HEXISTS', P .. ':unresolved', j.id) == 1
    or (is_kin == 1 and has_open_child(member))
    or (flow and is_busy(flow)) or false
end
