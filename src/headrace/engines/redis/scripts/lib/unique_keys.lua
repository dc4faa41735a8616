-- Jobs by their key. A finished job stays in the set of its key, because a settle does not read keys. The next reader
-- of the set moves it to the finished ones: so a key with a hundred thousand finished jobs is searched as fast as a new
-- one. Nothing of a key outlives its jobs.

local function past(state, key)
  return named('unique_done:' .. state, key)
end

local function hold_key(member, j, key)
  if FINAL[j.state] then
    add(past(j.state, key), text(j.finished_at or 0), member)
  else
    add(named('unique', key), member, member)
  end
end

-- Move those of these jobs that have finished; the known values of all of them, in their order.
local function set_aside(key, members)
  local set, found = named('unique', key), {}
  local records = records_of(members, #members)
  for i, member in ipairs(members) do
    local j = job_of(records[i])
    if not j or FINAL[j.state] then drop(set, member) end
    if j then
      if FINAL[j.state] then hold_key(member, j, key) end
      found[#found + 1] = {member = member, job = j}
    end
  end
  return found
end

-- A new job has this key. A few finished ones are moved on the way: nobody may ever search for the key, as with the
-- jobs of a schedule, and a late search must not find them all.
local A_FEW, looked_at = 20, {}
local function add_key(member, key)
  local set = named('unique', key)
  if not looked_at[key] then
    looked_at[key] = true
    set_aside(key, call('ZRANGE', set, 0, A_FEW - 1))
  end
  add(set, member, member)
end
