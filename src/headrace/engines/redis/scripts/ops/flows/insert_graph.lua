-- Insert jobs, their dependencies on each other and on existing jobs, and their flow: all or nothing.
-- ARGV: now, mark, count, ids, jobs (array of NewJob), edges (array of Dependency), the flow's id or nothing, FlowRow
-- Answers: nothing; or "moved" and the address of the other store; or the answer of `full_queue`; or "duplicate" and a
-- taken id; or "unknown" and an id; or "ended", an id and the state of its job; or "cycle" and the ids of its jobs in
-- order

local now, mark, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local given, jobs, edges = cmsgpack.unpack(ARGV[4]), ARGV[5], cmsgpack.unpack(ARGV[6])
local flow, flow_row = ARGV[7], ARGV[8]

local status = moved_to()
if status then return status end

-- Whether the stored job of this number equals the new one.
local function is_same(member, checksum, created_at)
  local j, payload_record = job_of(call('HGET', JOBS, member)), call('HGET', PAYLOADS, member)
  return j and payload_record and j.created_at == created_at and read_payload(payload_record).checksum == checksum
end

-- The first taken id; and whether all are taken by the same jobs: then this call stored everything before, and its
-- answer was lost.
local function taken()
  local known, seen, first, is_again = read_in_parts('HMGET', IDS, given, count), {}, nil, true
  local offset = count < 16 and 1 or count < 65536 and 3 or 5
  for i = 1, count do
    if (known[i] or seen[given[i]]) and not first then first = given[i] end
    if not known[i] then is_again = false end
    seen[given[i]] = true
  end
  if not first or not is_again then return first, false end
  for i = 1, count do
    local next_offset, $NewJob = take(jobs, #$NewJob, offset + #$NewJob:head)
    if not is_same(known[i], checksum, created_at) then return first, false end
    offset = next_offset
  end
  return first, true
end

local first, is_again = taken()
if is_again then return {} end
if first then return {'duplicate', first} end

local new_numbers, members, next_number = {}, {}, reserve_numbers(count)
for i = 1, count do
  members[i] = next_number()
  new_numbers[given[i]] = members[i]
end

local numbers_of, existing, unknown = look_up(edges, new_numbers)
if unknown then return {'unknown', unknown} end
edges = new_edges(edges, numbers_of, existing)
for _, edge in ipairs(edges) do
  local child = existing[edge.child]
  if child and FINAL[child.state] then return {'ended', child.id, child.state} end
end

-- A cycle as text.
local function cycle_ids(path)
  local names, answer = {}, {'cycle'}
  for id, member in pairs(numbers_of) do names[member] = id end
  for i, member in ipairs(path) do answer[i + 1] = names[member] or read(call('HGET', JOBS, member)).id end
  return answer
end
local cycle = find_cycle(edges, existing)
if cycle then return cycle_ids(cycle) end

local place = 0
submit_all(jobs, count, {}, function()
  place = place + 1
  return members[place]
end, mark)
local full = full_queue()
if full then return full end

local messages, cases = {}, new_cases()
local back = back_to_waiting(edges, existing, now)
flush_new_jobs()
add_edges(edges, existing)
if flow ~= '' and call('HSETNX', P .. ':flows', flow, flow_row) == 1 then call('ZADD', P .. ':flow_ids', 0, flow) end
record_ended_parents(cases, edges, existing)
for _, member in ipairs(back) do record_past_ends(cases, member) end
propagate({}, now, messages, cases)
announce(now, messages)
return {}
