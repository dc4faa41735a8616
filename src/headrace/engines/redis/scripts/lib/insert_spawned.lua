-- Insert the jobs that a successful job spawned. The success stands, so nothing here may fail: a job whose id is taken
-- was stored by an earlier success, and a dependency is dropped if it is on a deleted job, of a finished child, or
-- closes a cycle.

local mark = tonumber(ARGV[3]:sub(1, 12), 16)

local function without_circle(bonds, standing)
  local path = circle_in(bonds, standing)
  while path do
    local on_path = {}
    for i = 2, #path do on_path[path[i - 1] .. path[i]] = true end
    local left, is_out = {}, false
    for _, bond in ipairs(bonds) do
      -- A dependency on an existing job, not the one by which the job waits for its spawned jobs.
      if not is_out and on_path[bond.parent .. bond.child] and (standing[bond.parent] or #path == 2) then
        is_out = true
      else
        left[#left + 1] = bond
      end
    end
    bonds = is_out and left or {}
    path = circle_in(bonds, standing)
  end
  return bonds
end

local function to_open_ones(bonds, standing)
  local left = {}
  for _, bond in ipairs(bonds) do
    local child = standing[bond.child]
    if not (child and FINAL[child.state]) then left[#left + 1] = bond end
  end
  return left
end

insert_spawned = function(spawned, bonds, cases, messages)
  local ids_of, fresh, next_number = {}, {}, numbers(#spawned)
  for i, job in ipairs(spawned) do ids_of[i] = job[1] end
  local known = ask_in_parts('HMGET', IDS, ids_of, #ids_of)
  for i, job in ipairs(spawned) do
    if not known[i] and not fresh[job[1]] then
      local member = next_number()
      fresh[job[1]] = member
      submit(member, mark, unpack(job, 1, 19))
      coming[job[3]] = (coming[job[3]] or 0) + 1
      if job[4] == 'waiting' then case_of(cases, member) end -- for dependencies that may be dropped
    end
  end
  local numbers_of, standing = look_up(bonds, fresh)
  bonds = without_circle(to_open_ones(new_ones(bonds, numbers_of, standing), standing), standing)
  local back = hold_back(bonds, standing, now)
  flush_births()
  tie(bonds, standing)
  tell_of_ended(cases, bonds, standing)
  for _, member in ipairs(back) do tell_of_past(cases, member) end
  for queue in pairs(coming) do
    call('HSETNX', QUEUES, queue, now)
    messages['work:' .. queue] = true
  end
end
