-- Dependencies between jobs, new and existing. First they are checked, then the jobs are written, then the
-- dependencies, and at last those on finished parents are decided.

-- The jobs that dependencies name: `fresh` has the numbers of the new ones. Returns their numbers by id, the existing
-- jobs by number, and an id that does not exist, if any.
local function look_up(bonds, fresh)
  local others, asked, numbers_of, standing, unknown = {}, {}, {}, {}, nil
  for _, bond in ipairs(bonds) do
    for k = 1, 2 do
      local id = bond[k]
      if fresh[id] then
        numbers_of[id] = fresh[id]
      elseif not asked[id] then
        asked[id], others[#others + 1] = true, id
      end
    end
  end
  local members = ask_in_parts('HMGET', IDS, others, #others)
  for i = 1, #others do members[i] = members[i] or '' end
  for i, record in ipairs(records_of(members, #others)) do
    local j = job_of(record)
    if j then
      j.member, numbers_of[others[i]], standing[members[i]] = members[i], members[i], j
    else
      unknown = unknown or others[i]
    end
  end
  return numbers_of, standing, unknown
end

-- The new dependencies, by numbers.
local function new_ones(bonds, numbers_of, standing)
  local found, seen = {}, {}
  for _, bond in ipairs(bonds) do
    local parent, child = numbers_of[bond[1]], numbers_of[bond[2]]
    if parent and child and not seen[parent .. child] then
      seen[parent .. child] = true
      local is_known = standing[parent] and standing[child] and call('HEXISTS', parents_of(child), parent) == 1
      if not is_known then found[#found + 1] = {parent = parent, child = child, policy = bond[3]:sub(1, 1)} end
    end
  end
  return found
end

-- A cycle that dependencies would close, as numbers from a job to itself. A new job can wait for itself by way of an
-- older job only if an older job waits for a new one.
local function circle_in(bonds, standing)
  local below, goes_back = {}, false
  for _, bond in ipairs(bonds) do
    below[bond.parent] = below[bond.parent] or {}
    table.insert(below[bond.parent], bond.child)
    goes_back = goes_back or standing[bond.child] ~= nil
  end
  local listed = {}
  local function list_of(member)
    if not listed[member] then
      local list = below[member] or {}
      if goes_back then
        for _, child in ipairs(call('HKEYS', children_of(member))) do list[#list + 1] = child end
      end
      listed[member] = list
    end
    return listed[member]
  end
  local place_of, is_done = {}, {}
  for _, bond in ipairs(bonds) do
    local path, next_of = {}, {}
    local function enter_path(member)
      local place = #path + 1
      path[place], next_of[place], place_of[member] = member, 1, place
    end
    if not is_done[bond.parent] then enter_path(bond.parent) end
    while #path > 0 do
      local last = #path
      local child = list_of(path[last])[next_of[last]]
      next_of[last] = next_of[last] + 1
      if not child then
        is_done[path[last]], place_of[path[last]], path[last] = true, nil, nil
      elseif place_of[child] then
        local circle = {}
        for i = place_of[child], last do circle[#circle + 1] = path[i] end
        circle[#circle + 1] = child
        return circle
      elseif not is_done[child] then
        enter_path(child)
      end
    end
  end
end

-- Existing children that have not started wait from now on. To be flushed.
local function hold_back(bonds, standing, now)
  local seen, back = {}, {}
  for _, bond in ipairs(bonds) do
    local member, j = bond.child, standing[bond.child]
    if j and not seen[member] and not FINAL[j.state] and j.state ~= 'running' and j.state ~= 'waiting' then
      seen[member] = true
      file(member, j, now, 'amend', 'waiting', 'it waits for a job that was added', j.finished_at)
      move(member, j, function()
        j.state = 'waiting'
        if j.reason and j.reason:sub(1, 16) == 'waits for event ' then j.reason, j.run_at = nil, now end
      end)
      back[#back + 1] = member
    end
  end
  return back
end

local function append(lists, key, ...)
  lists[key] = lists[key] or {}
  for _, item in ipairs({...}) do table.insert(lists[key], item) end
end

-- Write the dependencies. `blocks` says whether the child waits; the default is true.
local function tie(bonds, standing)
  local hashes, sets = {}, {}
  for _, bond in ipairs(bonds) do
    append(hashes, children_of(bond.parent), bond.child, bond.policy)
    append(hashes, parents_of(bond.child), bond.parent, bond.policy)
    if bond.blocks ~= false then append(sets, blocks_of(bond.child), bond.parent) end
    append(sets, HAS_DEPENDENCIES, bond.parent)
    if standing[bond.child] then append(sets, HAS_DEPENDENCIES, bond.child) end
  end
  for key, list in pairs(hashes) do in_parts('HSET', key, list, #list) end
  for key, list in pairs(sets) do in_parts('SADD', key, list, #list) end
end

-- Record at the children the parents that have finished before.
local function tell_of_ended(cases, bonds, standing)
  for _, bond in ipairs(bonds) do
    local parent = standing[bond.parent]
    if parent and FINAL[parent.state] then tell(cases, bond.child, bond.policy, parent) end
  end
end
