-- Open jobs of one state that may have stayed too long, and since when each is there; see core/staleness.py.
-- ARGV: state, the number reached, how many to look at, in that state since before (or nothing), due since before (or
-- nothing)
-- Answers: the number reached, or nothing at the end; how many were looked at; the jobs, each the array of an Aged

local state, reached, looks = ARGV[1], ARGV[2], tonumber(ARGV[3])
local before, due_before = tonumber(ARGV[4]) or -1, tonumber(ARGV[5]) or -1

-- What runs is never much, and by its leases in an order that changes all the time: it is put into one that lasts.
local function next_running()
  local members, chosen = call('ZRANGE', LEASES, 0, -1), {}
  table.sort(members)
  for _, member in ipairs(members) do
    if member > reached and #chosen < looks then chosen[#chosen + 1] = member end
  end
  return chosen
end

local function next_members()
  if state == 'running' then return next_running() end
  return call('ZRANGEBYSCORE', named('state', state), '(' .. (reached == '' and '-1' or reached), '+inf', 'LIMIT', 0, looks)
end

local function own_clock(j)
  if state == 'running' then return j.started_at or 0 end
  if state == 'waiting' then return j.finished_at or j.created_at end
  return j.run_at
end

-- What was filed says more: whatever led it to its state later, and where its present life began.
local function told_of(member, j)
  local since, due, began, first_run, is_reviewed = own_clock(j), nil, 0, nil, false
  for _, entry in ipairs(call('LRANGE', P .. ':h:' .. member, 0, -1)) do
    local _, at, event, source, target, version, _, _, started_at = take(entry, 8, 1)
    if source ~= target then
      if target == state then since = math.max(since, at) end
      if event == 'revive' then began, first_run = at, nil end
      if source == 'running' and started_at and event ~= 'revive' then
        first_run = math.min(first_run or started_at, started_at)
      end
    elseif event == 'review' and version == j.version then
      is_reviewed = true
    end
  end
  due = math.max(j.created_at, began, first_run or j.run_at)
  return since, due, is_reviewed
end

local members = next_members()
local records = records_of(members, #members)
local found, count = {}, 0
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j and j.state == state and (own_clock(j) <= before or j.created_at <= due_before) then
    local since, due, is_reviewed = told_of(member, j)
    count = count + 1
    found[count] = '\152' .. pack(j.id, j.task, j.queue, j.state, j.version, since, due, is_reviewed)
  end
end
return {#members == looks and members[#members] or false, #members, as_array(found, count)}
