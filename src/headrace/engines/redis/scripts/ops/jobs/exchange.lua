-- A worker's exchange: store notes, settle outcomes, claim jobs, in this order. This is the last part of it.
-- ARGV: now, worker, salt, limit, lease, others, shares, outcome count, their ids, outcomes, note count, notes, the
-- worker's capabilities and preferences (its capabilities, an order or nothing, queues with the lane positions it
-- remembers, the tasks it does not know, and queues where such a task came up), whether that is more than capabilities,
-- whether outcomes spawn jobs or dependencies, the page of events of the exchange or nothing, their number, their time,
-- the number of successes among the outcomes, the tasks familiar to the worker, each between line breaks, or nothing if
-- it knows all
-- Answers: positions of the refused outcomes, claims (array of rows), when more is due, the open queues, queues with
-- their weights, queues with the lane positions to remember, the numbers of damaged jobs, and queues from which nothing
-- was claimed, each with an unfamiliar task

-- Claim up to `room` jobs from the front of a queue; how many there were.
local function take_from(queue, room, lease_until, any_lapse)
  local pending = named('in:pending', queue)
  local members = call('ZRANGE', pending, '0', text(room - 1)) -- ZPOPMIN would format every score, at twice the cost
  local n = #members
  if n == 0 then return 0 end
  if not start(queue, members, n, lease_until, any_lapse) then return 0 end
  call('ZREMRANGEBYRANK', pending, '0', text(n - 1))
  flush()
  return n
end

-- First up to each queue's share, then, if room is left, from any queue that has more.
local function take_shares(others, shares, lease_until)
  local is_open, is_empty, turns = {}, {}, {}
  for _, queue in ipairs(open) do is_open[queue] = true end
  for i = 1, #shares, 2 do turns[#turns + 1] = {shares[i], shares[i + 1]} end
  for i = 1, #shares, 2 do turns[#turns + 1] = {shares[i], limit} end
  for _, queue in ipairs(others and open or {}) do turns[#turns + 1] = {queue, limit} end
  local left = limit
  for _, turn in ipairs(turns) do
    local queue, room = turn[1], math.min(turn[2], left)
    if #strange > 0 then return end -- the worker checks them first, and the next claim begins with the same queue
    if room > 0 and is_open[queue] and not is_empty[queue] then
      local take_some = limited_claim and limited_claim.asks_care(queue) and limited_claim.take_from or take_from
      local found = take_some(queue, room, lease_until, lapses)
      left, is_empty[queue] = left - found, found < room
    end
  end
end

-- Whether a finished job held a slot that another worker's job may wait for: in a lane, or where there are rules.
local function lets_others_begin()
  if frees_others or (next(freed) and call('EXISTS', TASKS) == 1) then return true end
  for queue in pairs(freed) do
    if call('SISMEMBER', QUEUES_WITH_RULES, queue) == 1 then return true end
  end
  return false
end

if limit > 0 and not must_wait then
  take_shares(ARGV[6] == '1', cmsgpack.unpack(ARGV[7]), text(now + tonumber(ARGV[5])))
end
local next_at, weights, remembered = must_wait and now or due, {}, {}
if limited_claim then next_at, weights, remembered = limited_claim.told(next_at) end
if minded and lets_others_begin() then messages.work = true end
if is_news then ring(messages) end
local told_at = next_at and text(next_at) or false
return {refused, as_array(claims, claim_count), told_at, open, weights, remembered, spoiled, strange}
