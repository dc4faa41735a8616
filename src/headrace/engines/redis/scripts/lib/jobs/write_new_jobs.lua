-- Writes new jobs: submitted ones, and those transferred from another store.

local ids, payload_records, new_count = {}, {}, 0
local hours, has_numbers = {}, false
local flow_pairs, flow_pair_count = {}, 0

-- The range of numbers of each hour of this batch.
local function extend_hour(created_at, member)
  local hour = math.floor(created_at / 3600000)
  local range = hours[hour]
  if range then
    range[2] = member
  else
    hours[hour] = {member, member}
  end
end

-- The next numbers, as many as requested: a function that returns one at a time. It is a guard as well, being refused
-- for the same reasons; if nothing is stored after all, these numbers stay unused.
local function reserve_numbers(count)
  local seq = call('INCRBY', P .. ':seq', text(count)) - count
  has_numbers = true
  return function()
    seq = seq + 1
    return string.format('%012d', seq)
  end
end

-- Write everything of a new job but its state, which `enter` or the caller writes.
local function write_new_job(member, id, task, queue, tags, created_at, record, payload_record)
  local n = new_count
  ids[n + 1], ids[n + 2] = id, member
  payload_records[n + 1], payload_records[n + 2] = member, payload_record
  new_count = n + 2
  put_record(member, record)
  add(key_of('queue', queue), member, member)
  add(key_of('task', task), member, member)
  if tags then
    for _, tag in ipairs(tags_of(tags)) do add(key_of('tag', tag), member, member) end
  end
  extend_hour(created_at, member)
end

local function join_flow(member, flow)
  add(key_of('flow', flow), member, member)
  flow_pairs[flow_pair_count + 1], flow_pairs[flow_pair_count + 2] = member, flow
  flow_pair_count = flow_pair_count + 2
end

local function flush_new_jobs()
  if not has_numbers then guard() end
  write_in_parts('HSET', IDS, ids, new_count)
  write_in_parts('HSET', PAYLOADS, payload_records, new_count)
  write_in_parts('HSET', JOB_FLOW, flow_pairs, flow_pair_count)
  flush()
  for hour, range in pairs(hours) do write_hour(hour, range[1], range[2]) end
  ids, payload_records, new_count, hours, flow_pairs, flow_pair_count = {}, {}, 0, {}, {}, 0
end
