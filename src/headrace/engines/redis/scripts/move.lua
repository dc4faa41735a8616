-- Cancel, revive, hurry or delete jobs, if they still match.
-- ARGV: filter with the legal states, now, event, by, reason, limit, numbers of the jobs or nothing for those of `ids`
-- Answers: the ids of those that were moved

local now, event, by, reason = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local limit = tonumber(ARGV[6])
if by == '' then by = nil end

local CHANGES = {
  cancel = function(j) j.state, j.finished_at, j.reason = 'cancelled', now, reason end,
  revive = function(j)
    j.state, j.attempt, j.crashes, j.run_at, j.rank = 'pending', 0, 0, now, rank_at(j, now)
    j.finished_at, j.started_at, j.worker, j.result, j.result_checksum = nil, nil, nil, nil, nil
    j.progress, j.reason, j.expires_at = nil, nil, nil
  end,
  hurry = function(j) j.state, j.run_at, j.rank = 'pending', now, rank_at(j, now) end,
}
local TARGETS = {cancel = 'cancelled', revive = 'pending', hurry = 'pending'}

-- A finished job is about to be open again: by its key, if it has one, it is found among those.
local function reopen_key(member, j)
  local body = call('HGET', BODIES, member)
  local key = body and select(8, take(body, 7))
  if key then
    drop(past(j.state, key), member)
    add(named('unique', key), member, member)
  end
end

local members = filter.ids and candidates(nil, true, limit + #filter.ids) or cmsgpack.unpack(ARGV[7])
local records = records_of(members, #members)
local moved, messages = {}, {}
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j and #moved < limit and matches(member, j) then
    moved[#moved + 1] = j.id
    if event == 'delete' then
      erase(member, j)
    else
      file(member, j, now, event, TARGETS[event], by and 'by ' .. by, j.finished_at)
      if event == 'revive' then
        requeue_letter(j.id, now, by)
        reopen_key(member, j)
      end
      move(member, j, CHANGES[event])
      if j.state == 'pending' then messages['work:' .. j.queue] = true end
    end
  end
end
if #moved == 0 then return moved end
if event == 'delete' then
  flush_erased()
else
  guard()
  flush()
end
if event == 'cancel' or event == 'delete' then messages.done = true end
if event == 'cancel' then messages.orders = true end
if is_minded() then messages.work = true end
ring(messages)
return moved
