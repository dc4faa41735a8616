-- Cancel, revive, promote or delete jobs, if they still match.
-- ARGV: filter with the legal states, now, event, by, reason, limit, numbers of the jobs or nothing for those of `ids`
-- Answers: the ids of those that were moved; or, in a list of its own, the answer of `store_status`

local now, event, by, reason = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local limit = tonumber(ARGV[6])
if by == '' then by = nil end

local status = store_status()
-- A copy of moved jobs may be deleted here.
if status and not (event == 'delete' and status[1] == 'moved') then return {status} end

local CHANGES = {
  cancel = function(j) j.state, j.finished_at, j.reason = 'cancelled', now, reason end,
  revive = function(j, target) set_revived(j, target, now) end,
  promote_now = function(j)
    j.state, j.run_at, j.rank = 'pending', now, rank_at(j, now)
    if j.reason == 'held' then j.reason = nil end
  end,
}
local TARGETS = {cancel = 'cancelled', revive = 'pending', promote_now = 'pending'}

local members = filter.ids and candidates(nil, true, limit + #filter.ids) or cmsgpack.unpack(ARGV[7])
local records = records_of(members, #members)
local jobs, moving, moved, messages = {}, {}, {}, {}
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j and #jobs < limit and matches(member, j) then
    j.member, moving[member] = member, true
    jobs[#jobs + 1], moved[#moved + 1] = j, j.id
  end
end
if #jobs == 0 then return moved end

local any_edges = any_dependencies()

local function move_by_hand(member, j)
  local target = TARGETS[event]
  if event == 'revive' then
    if any_edges then target = state_of_revived(member, moving) end
    if j.state == 'completed' then deferred[#deferred + 1] = function() call('UNLINK', steps_key(member)) end end
    requeue_dead_letter(j.id, now, by)
    reopen_key(member, j)
  elseif event == 'promote_now' and j.state == 'waiting' then
    -- Its dependencies stay, but none of them blocks it any more.
    deferred[#deferred + 1] = function() call('UNLINK', blocks_of(member)) end
  end
  record_history(member, j, now, event, target, by and 'by ' .. by, j.finished_at)
  move(member, j, function() CHANGES[event](j, target) end)
  if target == 'pending' then messages['work:' .. j.queue] = true end
end

if event == 'delete' then
  local ended = {}
  for _, j in ipairs(jobs) do
    delete_job(j.member, j, now)
    if not FINAL[j.state] then
      ended[#ended + 1] = {member = j.member, id = j.id, task = j.task, state = 'cancelled', reason = 'deleted'}
    end
  end
  flush_deleted(ended, now, messages)
else
  guard()
  for _, j in ipairs(jobs) do move_by_hand(j.member, j) end
  flush()
  if any_edges and event == 'cancel' then propagate(jobs, now, messages) end
  if any_edges and event == 'revive' then reopen(jobs, now) end
end
if event == 'cancel' or event == 'delete' then messages.done = true end
if event == 'cancel' then messages.commands = true end
if rules_exist() then messages.work = true end
ring(messages)
return moved
