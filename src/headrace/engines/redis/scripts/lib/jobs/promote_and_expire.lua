-- The second part of an exchange, if the worker wants jobs: promote due jobs and cancel expired ones.

local function first_of(key)
  local first = call('ZRANGE', key, '0', '0', 'WITHSCORES')
  return first[2] and tonumber(first[2])
end

local function open_queues()
  local paused, open = {}, {}
  for _, name in ipairs(call('SMEMBERS', P .. ':paused')) do paused[name] = true end
  for _, name in ipairs(call('HKEYS', QUEUES)) do
    if not paused[name] then open[#open + 1] = name end
  end
  table.sort(open) -- a hash is unordered, and the same queues should not be last at one server and first at another
  return open
end

-- The basis of the claim: the queues to claim from, when the next job is due and when one expires, and whether there
-- are rules or lanes. Without queues nothing is claimed.
local open, due, next_expiry, has_rules = {}, nil, nil, false

local function promote_and_expire()
  -- One read where there is neither a store status nor a rule.
  has_rules = call('EXISTS', P .. ':status', QUEUES_WITH_RULES, QUEUES_WITH_LANES, TASKS) > 0
  if has_rules and call('EXISTS', P .. ':status') == 1 then return end
  open, next_expiry = open_queues(), first_of(EXPIRING)
  if next_expiry and next_expiry <= now then
    due_jobs().expire()
    messages.done, has_changes, next_expiry = true, true, first_of(EXPIRING)
    if next_expiry and next_expiry <= now then return end
  end
  due = first_of(DUE)
  if due and due <= now then
    due_jobs().promote()
    due, has_rules = first_of(DUE), rules_exist() -- they may be the first in a lane
  end
end

local limit = tonumber(ARGV[4])
if limit > 0 then promote_and_expire() else has_rules = outcome_count > 0 and rules_exist() end
-- Whether there are rules or lanes in queues of the worker. Creating `limited_claim` takes half as long as a claim of
-- one job, so rules of other queues must not require it, nor those of a queue without pending jobs.
local function needs_limited_claim()
  if limit == 0 or not has_rules then return false end
  if call('EXISTS', TASKS) == 1 then return true end
  local served, shares = ARGV[6] == '1' and open or {}, cmsgpack.unpack(ARGV[7])
  if ARGV[6] ~= '1' then
    for i = 1, #shares, 2 do served[#served + 1] = shares[i] end
  end
  for _, with_lanes in ipairs(read_in_parts('SMISMEMBER', QUEUES_WITH_LANES, served, #served)) do
    if with_lanes == 1 then return true end
  end
  for i, with_rules in ipairs(read_in_parts('SMISMEMBER', QUEUES_WITH_RULES, served, #served)) do
    if with_rules == 1 and call('EXISTS', key_of('in:pending', served[i])) == 1 then return true end
  end
  return false
end

-- More jobs expire than one commit should hold: none of the rest may start, so claim again.
local must_wait = next_expiry and next_expiry <= now
