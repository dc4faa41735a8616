-- A worker's exchange: store notes, settle outcomes, claim jobs, in this order. This is the last part of it.
-- ARGV: now, worker, salt, limit, lease, others, shares, outcome count, their ids, outcomes, note count, notes, the
-- worker's capabilities and preferences (its capabilities, an order or nothing, queues with the lane positions it
-- keeps, the tasks it does not know, and queues where such a task came up), whether that is more than capabilities,
-- whether outcomes spawn jobs or dependencies, the page of events of the exchange or nothing, their number, their time,
-- the number of successes among the outcomes, the tasks that the worker knows, each between line breaks, or nothing if
-- it knows all, the units that outcomes report, each with id and version, or nothing
-- Answers: positions of the refused outcomes, claims (array of rows), when more is due, the open queues, queues with
-- their weights, queues with the lane positions to keep, the numbers of damaged jobs, and queues from which nothing
-- was claimed, each with an unknown task

-- Claim up to `max_jobs` jobs from the front of a queue; how many there were.
local function claim_from(queue, max_jobs, lease_until, any_expiry)
  local pending = key_of('in:pending', queue)
  -- ZPOPMIN would format every score, at twice the cost.
  local members = call('ZRANGE', pending, '0', text(max_jobs - 1))
  local n = #members
  if n == 0 then return 0 end
  if not start(queue, members, n, lease_until, any_expiry) then return 0 end
  call('ZREMRANGEBYRANK', pending, '0', text(n - 1))
  flush()
  return n
end

-- First up to each queue's share, then, if capacity is left, from any queue that has more.
local function claim_shares(others, shares, lease_until)
  local is_open, is_empty, turns = {}, {}, {}
  for _, queue in ipairs(open) do is_open[queue] = true end
  for i = 1, #shares, 2 do turns[#turns + 1] = {shares[i], shares[i + 1]} end
  for i = 1, #shares, 2 do turns[#turns + 1] = {shares[i], limit} end
  for _, queue in ipairs(others and open or {}) do turns[#turns + 1] = {queue, limit} end
  local left = limit
  for _, turn in ipairs(turns) do
    local queue, max_jobs = turn[1], math.min(turn[2], left)
    if #unknown_pairs > 0 then return end -- the worker checks them first, and the next claim begins with the same queue
    if max_jobs > 0 and is_open[queue] and not is_empty[queue] then
      local claim = limited_claim and limited_claim.needs_limits(queue) and limited_claim.claim_from or claim_from
      local found = claim(queue, max_jobs, lease_until, next_expiry)
      left, is_empty[queue] = left - found, found < max_jobs
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
  claim_shares(ARGV[6] == '1', cmsgpack.unpack(ARGV[7]), text(now + tonumber(ARGV[5])))
end
local next_at, weights, new_positions = must_wait and now or due, {}, {}
if limited_claim then next_at, weights, new_positions = limited_claim.claim_info(next_at) end
if has_rules and lets_others_begin() then messages.work = true end
if has_changes then ring(messages) end
local next_at_text = next_at and text(next_at) or false
return {refused, as_array(claims, claim_count), next_at_text, open, weights, new_positions, damaged, unknown_pairs}
