-- Writes new jobs: submitted ones, and those transferred from another store.

local ids, bodies, new_count = {}, {}, 0
local spans, any_number = {}, false
local origins, origin_count = {}, 0

-- The range of job numbers for each hour, so that a search by time need not read all jobs. The upper bound is rounded
-- up, so that it is not written again for every job.
local ROUND = 1000
local function remember_span(created_at, member)
  local hour = math.floor(created_at / 3600000)
  local span = spans[hour]
  if span then
    span[2] = member
  else
    spans[hour] = {member, member}
  end
end

-- The next numbers, as many as requested: a function that returns one at a time. It is a guard as well, being refused
-- for the same reasons; if nothing is stored after all, these numbers stay unused.
local function numbers(count)
  local seq = call('INCRBY', P .. ':seq', text(count)) - count
  any_number = true
  return function()
    seq = seq + 1
    return string.format('%012d', seq)
  end
end

-- Write everything of a new job but its state, which `enter` or the caller writes.
local function bear(member, id, task, queue, tags, created_at, record, body)
  local n = new_count
  ids[n + 1], ids[n + 2] = id, member
  bodies[n + 1], bodies[n + 2] = member, body
  new_count = n + 2
  keep(member, record)
  add(named('queue', queue), member, member)
  add(named('task', task), member, member)
  if tags then
    for _, tag in ipairs(tags_of(tags)) do add(named('tag', tag), member, member) end
  end
  remember_span(created_at, member)
end

local function join_flow(member, flow)
  add(named('flow', flow), member, member)
  origins[origin_count + 1], origins[origin_count + 2] = member, flow
  origin_count = origin_count + 2
end

local function flush_births()
  if not any_number then guard() end
  in_parts('HSET', IDS, ids, new_count)
  in_parts('HSET', PAYLOADS, bodies, new_count)
  in_parts('HSET', JOB_FLOW, origins, origin_count)
  flush()
  for hour, span in pairs(spans) do
    local name, first, last = text(hour), span[1], span[2]
    local known = call('HGET', P .. ':hours', name)
    local lowest, highest = (known or last .. ' ' .. last):match('^(%d+) (%d+)$')
    if not lowest then lowest, highest = '000000000000', '000000000000' end -- damaged: the range is unknown
    if last > highest then highest = string.format('%012.0f', math.ceil(last / ROUND) * ROUND) end
    local range = (first < lowest and first or lowest) .. ' ' .. highest
    if range ~= known then call('HSET', P .. ':hours', name, range) end
  end
  ids, bodies, new_count, spans, origins, origin_count = {}, {}, 0, {}, {}, 0
end
