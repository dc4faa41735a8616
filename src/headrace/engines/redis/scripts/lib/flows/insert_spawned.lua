-- Insert the jobs that a successful job spawned. The success stands, so nothing here may fail: a job whose id is taken
-- was stored by an earlier success, and a dependency is dropped if it is on a deleted job, of a finished child, or
-- closes a cycle.

local mark = tonumber(ARGV[3]:sub(1, 12), 16)

local function without_cycles(edges, existing)
  local path = find_cycle(edges, existing)
  while path do
    local on_path = {}
    for i = 2, #path do on_path[path[i - 1] .. path[i]] = true end
    local left, is_out = {}, false
    for _, edge in ipairs(edges) do
      -- A dependency on an existing job, not the one by which the job waits for its spawned jobs.
      if not is_out and on_path[edge.parent .. edge.child] and (existing[edge.parent] or #path == 2) then
        is_out = true
      else
        left[#left + 1] = edge
      end
    end
    edges = is_out and left or {}
    path = find_cycle(edges, existing)
  end
  return edges
end

local function with_open_children(edges, existing)
  local left = {}
  for _, edge in ipairs(edges) do
    local child = existing[edge.child]
    if not (child and FINAL[child.state]) then left[#left + 1] = edge end
  end
  return left
end

insert_spawned = function(spawned, edges, cases, messages)
  local ids_of, new_numbers, next_number = {}, {}, reserve_numbers(#spawned)
  for i, job in ipairs(spawned) do ids_of[i] = job[$NewJob.id] end
  local known = read_in_parts('HMGET', IDS, ids_of, #ids_of)
  for i, job in ipairs(spawned) do
    if not known[i] and not new_numbers[job[1]] then
      local member = next_number()
      new_numbers[job[1]] = member
      submit(member, mark, unpack(job, 1, #$NewJob))
      grow_queue(job[$NewJob.queue], 1)
      if job[$NewJob.state] == 'waiting' then case_of(cases, member) end -- for dependencies that may be dropped
    end
  end
  local numbers_of, existing = look_up(edges, new_numbers)
  edges = without_cycles(with_open_children(new_edges(edges, numbers_of, existing), existing), existing)
  local back = back_to_waiting(edges, existing, now)
  flush_new_jobs()
  add_edges(edges, existing)
  record_ended_parents(cases, edges, existing)
  for _, member in ipairs(back) do record_past_ends(cases, member) end
  for queue in pairs(queue_growth) do
    call('HSETNX', QUEUES, queue, now)
    messages['work:' .. queue] = true
  end
end
