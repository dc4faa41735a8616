-- Store jobs from another store as they are; those whose id exists are not changed.
-- ARGV: now, mark, their origin or nothing, then for each job: JobRow, number of history rows, rows ..., number of log
-- lines, lines ..., number of lines of its stream, lines ..., number of steps, steps ...
-- Answers: how many are new; or nothing, if the store status does not say that jobs arrive from there; or, in a list of
-- its own, the answer of `moved_to`

local now, mark = tonumber(ARGV[1]), tonumber(ARGV[2])
local new_jobs, seen, at = {}, {}, 4

if not still_arriving(ARGV[3]) then return false end
local status = moved_to()
if status then return {status} end

-- A list of texts, preceded by its length.
local function list()
  local items, n = {}, tonumber(ARGV[at])
  for i = 1, n do items[i] = ARGV[at + i] end
  at = at + n + 1
  return items
end

while at <= #ARGV do
  local row = ARGV[at]
  at = at + 1
  local history, log, stream, steps = list(), list(), list(), list()
  local _, $JobRow[..id] = take(row, #$JobRow[..id], #$JobRow:head)
  if not seen[id] and call('HEXISTS', IDS, id) == 0 then new_jobs[#new_jobs + 1] = {row, history, log, stream, steps} end
  seen[id] = true
end
if #new_jobs == 0 then return 0 end

local next_number = reserve_numbers(#new_jobs)
local queues = {}
local function append_all(name, member, items)
  for _, item in ipairs(items) do append_to(name, member, item) end
end

for _, job_export in ipairs(new_jobs) do
  local _, $JobRow = take(job_export[1], #$JobRow, #$JobRow:head)
  local member, j = next_number(), $Record{}
  write_new_job(member, id, task, queue, tags, created_at, encode_job(j),
    pack($Payload))
  if unique_key then add_to_key(member, j, unique_key) end
  enter(member, j, lease_until)
  append_all('history', member, job_export[2])
  append_all('logs', member, job_export[3])
  append_all('stream', member, job_export[4])
  for i, step in ipairs(job_export[5]) do put_step(member, step, i) end
  if flow then join_flow(member, flow) end
  if has_dependencies == true or has_dependencies == 1 then
    deferred[#deferred + 1] = function() call('SADD', HAS_DEPENDENCIES, member) end
  end
  queues[queue] = true
end
flush_new_jobs()
for queue in pairs(queues) do call('HSETNX', QUEUES, queue, now) end
return #new_jobs
