-- Store the next event of this name for a job, and wake it if it is suspended for it.
-- ARGV: now, id, name, the reason of a job that waits for it, the history text if it does, value and checksum
-- Answers: 1, or 0 if the job is finished or does not exist; or, in a list of its own, the answer of `store_status`

local now, id, name, reason, detail = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local value = cmsgpack.unpack(ARGV[6])

local status = store_status()
if status then return {status} end

local member = call('HGET', IDS, id)
local j = member and job_of(call('HGET', JOBS, member))
if not j or FINAL[j.state] then return 0 end

local number, known = 1, call('HKEYS', steps_key(member))
for _, step in ipairs(known) do
  local kind, place, of_name = step:match('^(%l+):(%d+):(.*)$')
  if kind == 'event' and of_name == name then number = math.max(number, tonumber(place) + 1) end
end
guard()
put_step(member, $Step:head .. pack('event', name, number, now, value[1], value[2]), #known + 1)
append_remark(member, j, now, 'event', name)
local quoted = reason:sub(#$Text.AWAITING + 1)
local is_awaited = j.state == 'scheduled' and j.reason ~= nil and (j.reason == reason
  or j.reason:sub(1, #$Text.AWAITING) == $Text.AWAITING and j.reason:find($Text.OR, 1, true) ~= nil
  and j.reason:find(quoted, 1, true) ~= nil) -- as is_woken_by in core/jobs/steps.py
if is_awaited then
  record_history(member, j, now, 'promote_now', 'pending', detail, j.finished_at)
  move(member, j, now, function() j.state, j.run_at, j.rank, j.reason = 'pending', now, rank_at(j, now), nil end)
end
flush()
if is_awaited then ring({['work:' .. j.queue] = true}) end
return 1
