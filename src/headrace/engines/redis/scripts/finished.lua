-- Finished jobs of a queue and state that ended before a time, from one end or the other.
-- ARGV: queue, state, before, limit, "up" or "down", the end and the number of the job to go on after, or nothing
-- Answers: number, id, task, queue, state, finished_at, version, options, has a key, is held, flow of each

local key, before, limit, is_up = place(ARGV[2], ARGV[1]), ARGV[3], tonumber(ARGV[4]), ARGV[5] == 'up'
local at, last = ARGV[6], ARGV[7]

-- Jobs of one end are in the order of their numbers; those up to the last one are behind us.
local function is_behind(member, score)
  if at == '' or tonumber(score) ~= tonumber(at) then return false end
  if is_up then return member <= last end
  return member >= last
end

local members, offset = {}, 0
while #members < limit do
  local found
  if is_up then
    found = call('ZRANGEBYSCORE', key, at == '' and '-inf' or at, '(' .. before, 'WITHSCORES', 'LIMIT', offset, limit)
  else
    local from = '(' .. before
    if at ~= '' and tonumber(at) < tonumber(before) then from = at end
    found = call('ZREVRANGEBYSCORE', key, from, '-inf', 'WITHSCORES', 'LIMIT', offset, limit)
  end
  for i = 1, #found, 2 do
    if #members < limit and not is_behind(found[i], found[i + 1]) then members[#members + 1] = found[i] end
  end
  if #found < 2 * limit then break end
  offset = offset + limit
end

local count = #members
local records = records_of(members, count)
local bodies = ask_in_parts('HMGET', BODIES, members, count)
local flows = ask_in_parts('HMGET', ORIGINS, members, count)
local is_kin = ask_in_parts('SMISMEMBER', KIN, members, count)
local rows, n = {}, 0
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j then
    local options, unique_key
    if bodies[i] then
      local _, _, _, third, _, _, _, seventh = take(bodies[i], 7)
      options, unique_key = third, seventh
    end
    n = n + 1
    rows[n] = '\155' .. pack(tonumber(member), j.id, j.task, j.queue, j.state, j.finished_at or 0, j.version, options,
      unique_key ~= nil, is_held(member, j, flows[i] or nil, is_kin[i]), flows[i] or nil)
  end
end
return as_array(rows, n)
