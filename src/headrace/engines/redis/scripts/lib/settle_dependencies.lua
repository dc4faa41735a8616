-- Dependencies of settled jobs. Only created in an exchange of a store that has dependencies, or gets some.

-- How many open children the success of this job has to wait for: existing and spawned ones.
local function awaited(member, id, is_kin, bonds)
  local count = is_kin and call('SCARD', blocks_of(member)) or 0
  for _, bond in ipairs(bonds or {}) do
    if bond[2] == id then count = count + 1 end
  end
  return count
end

-- After jobs finished, or wait though their own run is over, and spawned jobs.
local function settled(ended, waiting, spawns, messages)
  local cases = new_cases()
  for _, spawn in ipairs(spawns) do insert_spawned(spawn[1], spawn[2], cases, messages) end
  for _, member in ipairs(waiting) do tell_of_past(cases, member) end
  follow(ended, now, messages, cases)
end

settle_dependencies = {has = has_kin, awaited = awaited, settled = settled, follow = follow}
