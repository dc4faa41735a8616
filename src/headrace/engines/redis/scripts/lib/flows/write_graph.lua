-- Dependencies between jobs, new and existing. The scripts check them first, then write the jobs, then the
-- dependencies, and decide those on finished parents last.

-- The jobs that dependencies name: `new_numbers` has the numbers of the new ones. Returns their numbers by id, the
-- existing jobs by number, and an id that does not exist, if any.
local function look_up(edges, new_numbers)
  local others, seen_ids, numbers_of, existing, unknown = {}, {}, {}, {}, nil
  for _, edge in ipairs(edges) do
    for _, id in ipairs({edge[$Dependency.parent], edge[$Dependency.child]}) do
      if new_numbers[id] then
        numbers_of[id] = new_numbers[id]
      elseif not seen_ids[id] then
        seen_ids[id], others[#others + 1] = true, id
      end
    end
  end
  local members = read_in_parts('HMGET', IDS, others, #others)
  for i = 1, #others do members[i] = members[i] or '' end
  for i, record in ipairs(records_of(members, #others)) do
    local j = job_of(record)
    if j then
      j.member, numbers_of[others[i]], existing[members[i]] = members[i], members[i], j
    else
      unknown = unknown or others[i]
    end
  end
  return numbers_of, existing, unknown
end

-- The new dependencies, by numbers.
local function new_edges(edges, numbers_of, existing)
  local found, seen = {}, {}
  for _, edge in ipairs(edges) do
    local parent, child = numbers_of[edge[$Dependency.parent]], numbers_of[edge[$Dependency.child]]
    if parent and child and not seen[parent .. child] then
      seen[parent .. child] = true
      local is_known = existing[parent] and existing[child] and call('HEXISTS', parents_of(child), parent) == 1
      if not is_known then found[#found + 1] = {parent = parent, child = child, policy = edge[$Dependency.policy]:sub(1, 1)} end
    end
  end
  return found
end

-- A cycle that dependencies would close, as numbers from a job to itself. A new job can wait for itself by way of an
-- older job only if an older job waits for a new one.
local function find_cycle(edges, existing)
  local below, goes_back = {}, false
  for _, edge in ipairs(edges) do
    below[edge.parent] = below[edge.parent] or {}
    table.insert(below[edge.parent], edge.child)
    goes_back = goes_back or existing[edge.child] ~= nil
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
  for _, edge in ipairs(edges) do
    local path, next_of = {}, {}
    local function enter_path(member)
      local place = #path + 1
      path[place], next_of[place], place_of[member] = member, 1, place
    end
    if not is_done[edge.parent] then enter_path(edge.parent) end
    while #path > 0 do
      local last = #path
      local child = list_of(path[last])[next_of[last]]
      next_of[last] = next_of[last] + 1
      if not child then
        is_done[path[last]], place_of[path[last]], path[last] = true, nil, nil
      elseif place_of[child] then
        local cycle = {}
        for i = place_of[child], last do cycle[#cycle + 1] = path[i] end
        cycle[#cycle + 1] = child
        return cycle
      elseif not is_done[child] then
        enter_path(child)
      end
    end
  end
end

-- Existing children that have not started wait from now on. To be flushed.
local function back_to_waiting(edges, existing, now)
  local seen, back = {}, {}
  for _, edge in ipairs(edges) do
    local member, j = edge.child, existing[edge.child]
    if j and not seen[member] and not FINAL[j.state] and j.state ~= 'running' and j.state ~= 'waiting' then
      seen[member] = true
      record_history(member, j, now, 'update', 'waiting', $Text.PARENT_ADDED, j.finished_at)
      move(member, j, now, function()
        j.state = 'waiting'
        if j.reason and j.reason:sub(1, #$Text.AWAITING) == $Text.AWAITING then j.reason, j.run_at = nil, now end
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
local function add_edges(edges, existing)
  local hashes, sets = {}, {}
  for _, edge in ipairs(edges) do
    append(hashes, children_of(edge.parent), edge.child, edge.policy)
    append(hashes, parents_of(edge.child), edge.parent, edge.policy)
    if edge.blocks ~= false then append(sets, blocks_of(edge.child), edge.parent) end
    append(sets, HAS_DEPENDENCIES, edge.parent)
    if existing[edge.child] then append(sets, HAS_DEPENDENCIES, edge.child) end
  end
  for key, list in pairs(hashes) do write_in_parts('HSET', key, list, #list) end
  for key, list in pairs(sets) do write_in_parts('SADD', key, list, #list) end
end

-- Record at the children the parents that have finished before.
local function record_ended_parents(cases, edges, existing)
  for _, edge in ipairs(edges) do
    local parent = existing[edge.parent]
    if parent and FINAL[parent.state] then record_end(cases, edge.child, edge.policy, parent) end
  end
end
