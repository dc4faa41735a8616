-- Jobs by their key. A finished job stays in the set of its key, because a settle does not read keys. The next reader
-- of the set moves it to the finished ones: so a key with a hundred thousand finished jobs is searched as fast as a new
-- one. Nothing of a key outlives its jobs.

local function finished_key(state, key)
  return key_of('unique_done:' .. state, key)
end

local function add_to_key(member, j, key)
  if FINAL[j.state] then
    add(finished_key(j.state, key), text(j.finished_at or 0), member)
  else
    add(key_of('unique', key), member, member)
  end
end

-- Move those of these jobs that have finished; the known values of all of them, in their order.
local function move_finished(key, members)
  local set, found = key_of('unique', key), {}
  local records = records_of(members, #members)
  for i, member in ipairs(members) do
    local j = job_of(records[i])
    if not j or FINAL[j.state] then drop(set, member) end
    if j then
      if FINAL[j.state] then add_to_key(member, j, key) end
      found[#found + 1] = {member = member, job = j}
    end
  end
  return found
end

-- A new job has this key. A few finished ones are moved as well: no other call may ever search for the key, as with the
-- jobs of a schedule, and a late search must not find them all.
local CLEANUP_SIZE, cleaned_keys = 20, {}
local function add_key(member, key)
  local set = key_of('unique', key)
  if not cleaned_keys[key] then
    cleaned_keys[key] = true
    move_finished(key, call('ZRANGE', set, 0, CLEANUP_SIZE - 1))
  end
  add(set, member, member)
end
