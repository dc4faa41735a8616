-- Dependencies of settled jobs. Only created in an exchange of a store that has dependencies, or gets some.

-- How many open children the success of this job has to wait for: existing and spawned ones.
local function awaited(member, id, has_dependencies, edges)
  local count = has_dependencies and call('SCARD', blocks_of(member)) or 0
  for _, edge in ipairs(edges or {}) do
    if edge[$Dependency.child] == id then count = count + 1 end
  end
  return count
end

-- After jobs finished, or wait though their own run is over, and spawned jobs.
local function settle_edges(ended, waiting, spawns, messages)
  local cases = new_cases()
  for _, spawn in ipairs(spawns) do insert_spawned(spawn[1], spawn[2], cases, messages) end
  for _, member in ipairs(waiting) do record_past_ends(cases, member) end
  propagate(ended, now, messages, cases)
end

settle_dependencies = {
  dependency_flags = dependency_flags, awaited = awaited, settle_edges = settle_edges, propagate = propagate,
}
