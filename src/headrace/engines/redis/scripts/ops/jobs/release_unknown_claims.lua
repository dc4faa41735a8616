-- Release the running jobs of a worker that it does not hold.
-- ARGV: now, worker, ids it holds, their versions
-- Answers: the ids of the released jobs

local now, worker = tonumber(ARGV[1]), ARGV[2]
local ids, versions = cmsgpack.unpack(ARGV[3]), cmsgpack.unpack(ARGV[4])

local held = {}
for i, id in ipairs(ids) do
  held[id] = held[id] or {}
  held[id][versions[i]] = true
end
local members = call('ZRANGE', LEASES, 0, -1)
local records = records_of(members, #members)
local released, messages = {}, {}
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j and j.state == 'running' and j.worker == worker and not (held[j.id] and held[j.id][j.version]) then
    release(member, j, now, 'its claim never reached the worker')
    released[#released + 1], messages['work:' .. j.queue] = j.id, true
  end
end
if #released > 0 then
  guard_without_memory()
  flush()
  if rules_exist() then messages.work = true end
  ring(messages)
end
return released
