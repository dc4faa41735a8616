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

local function own_clock(started_at, finished_at, created_at, run_at)
  if state == 'running' then return started_at or 0 end
  if state == 'waiting' then return finished_at or created_at end
  return run_at
end

-- Those that may have stayed too long by what their records tell. The records are not made tables of: most are passed
-- over, and all of them are looked at.
local function candidates()
  local members, found = next_members(), {}
  local records = records_of(members, #members)
  for i, member in ipairs(members) do
    local is_whole, _, job_state, finished_at, _, _, _, version, _, _, started_at, _, queue, _, _, id, task, _, _, _,
      created_at, run_at = pcall(take, records[i], 20)
    if is_whole and job_state == state then
      local since = own_clock(started_at, finished_at, created_at, run_at)
      if since <= before or created_at <= due_before then
        found[#found + 1] = {P .. ':h:' .. member, since, id, task, queue, version, created_at, run_at}
      end
    end
  end
  return found, members
end

-- What was filed says more: whatever led it to its state later, and where its present life began.
local function told_in(filings, since, version, created_at, run_at)
  local began, first_run, is_reviewed = 0, nil, false
  for _, entry in ipairs(filings) do
    local _, at, event, source, target, of_version, _, _, started_at = take(entry, 8, 1)
    if source ~= target then
      if target == state then since = math.max(since, at) end
      if event == 'revive' then began, first_run = at, nil end
      if source == 'running' and started_at and event ~= 'revive' then
        first_run = math.min(first_run or started_at, started_at)
      end
    elseif event == 'review' and of_version == version then
      is_reviewed = true
    end
  end
  return since, math.max(created_at, began, first_run or run_at), is_reviewed
end

local found, members = candidates()
local histories = {}
for i, one in ipairs(found) do histories[i] = one[1] end
-- Most jobs have no history: one question for all of them spares the others.
local any_history = #found > 0 and call('EXISTS', unpack(histories)) > 0
for i, one in ipairs(found) do
  local key, own, id, task, queue, version, created_at, run_at = unpack(one)
  local filings = any_history and call('LRANGE', key, 0, -1) or {}
  found[i] = '\152' .. pack(id, task, queue, state, version, told_in(filings, own, version, created_at, run_at))
end
return {#members == looks and members[#members] or false, #members, as_array(found, #found)}
