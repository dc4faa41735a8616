-- Store schedules that are at their expected versions, with their jobs and occurrences.
-- ARGV: now, mark, again, then for each fire: id, the version expected, due_at or nothing, ScheduleRow, number of
-- jobs, their ids, jobs (array of NewJob), page of events or nothing, their number, their time,
-- number of occurrences, occurrences ...
-- Answers: the positions of those that applied; or the name of a full queue, and nothing is written

local now, mark, again = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local KEPT = 1000 -- occurrences of each

local applied = {}
if call('EXISTS', P .. ':status') == 1 then return applied end -- the status was set after they were found to be due

local versions, seen, any_applied = {}, {}, false

local function version_now(id, row)
  return versions[id] or row and schedule_version(row)
end

local function add_jobs(count, ids, jobs)
  local known, skip, fresh_count = read_in_parts('HMGET', IDS, ids, count), {}, count
  for i = 1, count do
    skip[i] = seen[ids[i]] or known[i]
    if skip[i] then fresh_count = fresh_count - 1 end
    seen[ids[i]] = true
  end
  if fresh_count > 0 then submit_all(jobs, count, skip, reserve_numbers(fresh_count), mark) end
end

local function write_later(id, due_at, row, occurrences, events, event_count, events_at)
  deferred[#deferred + 1] = function()
    write_schedule(id, due_at, row)
    local key = P .. ':occurrences:' .. id
    if events ~= '' then store_page(events, event_count, events_at) end
    write_in_parts('LPUSH', key, occurrences, #occurrences)
    if #occurrences > 0 then call('LTRIM', key, 0, KEPT - 1) end
  end
end

local at, position = 4, 0
while at <= #ARGV do
  local id, expected, due_at, row = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local job_count, ids, jobs, occurrence_count = tonumber(ARGV[at + 4]), ARGV[at + 5], ARGV[at + 6], ARGV[at + 10]
  local events, event_count, events_at = ARGV[at + 7], ARGV[at + 8], ARGV[at + 9]
  local occurrences = {}
  for i = 1, tonumber(occurrence_count) do occurrences[i] = ARGV[at + 10 + i] end
  at, position = at + 11 + #occurrences, position + 1
  local stored = call('HGET', SCHEDULES, id)
  if again and stored == row then -- this very call stored it before; its answer was lost
    applied[#applied + 1] = position
  elseif stored and version_now(id, stored) == expected then
    versions[id], any_applied = expected + 1, true
    add_jobs(job_count, cmsgpack.unpack(ids), jobs)
    write_later(id, due_at, row, occurrences, events, event_count, events_at)
    applied[#applied + 1] = position
  end
end
local full = full_queue()
if full then return full end
if any_applied then
  flush_new_jobs()
  announce(now, {schedules = true})
end
return applied
