-- Rate buckets, as in core/queues/rates.py. A bucket is stored as the time when it will be full again. A rate has one
-- window, or several: itself and those in `more`. All times are in microseconds.

local RATE_BUCKETS = P .. ':rate_buckets'

-- The name includes the rate: tokens spent under a slow rate must not block a faster one. Each name has its length in
-- front, as names may contain any character.
local function bucket_of(window, kind, ...)
  local parts = {kind, text(window.every), text(window.burst)}
  if window.period or window.units then
    parts[#parts + 1] = 'w' .. text(window.period or 0) .. (window.units and 'u' or '')
  end
  for _, name in ipairs({...}) do parts[#parts + 1] = #name .. ' ' .. name end
  return table.concat(parts, ' ')
end

local function windows_of(rate)
  return rate.more and {rate, unpack(rate.more)} or {rate}
end

-- How many may start by a window; from when the next ones count; and when so many as wanted may start, in milliseconds.
-- A window counts from now, or from the end of its period. More than the burst start when the bucket is full.
local function read_window(window, full_at, at, wanted)
  local from = window.period and at - at % window.period + window.period or at
  local base = math.max(full_at, from)
  local opens_at = full_at - math.max(window.burst - wanted, 0) * window.every
  if window.period then opens_at = (math.ceil(opens_at / window.period) - 1) * window.period end
  local starts = math.floor((from + window.burst * window.every - base) / window.every)
  return math.max(starts, 0), base, math.ceil(opens_at / 1000)
end

-- When a bucket is full after so many starts or units. A debt of units is ten years' worth at most.
local function after_starts(window, base, starts, at)
  local full = base + starts * window.every
  return window.units and math.min(full, at + window.burst * window.every + 316224000000000) or full
end

local function is_rate(value)
  if type(value) ~= 'table' or not all_are(is_whole_number, value.every, value.burst) then return false end
  if value.every < 1 or value.burst < 1 or (value.more ~= nil and type(value.more) ~= 'table') then return false end
  if value.period ~= nil and not (is_whole_number(value.period) and value.period > 0) then return false end
  return all_are(is_rate, unpack(value.more or {}))
end

-- Stored rules; damaged ones count as none, so that no queue stops.
local function rules_in(stored)
  local rules = from_json(stored)
  for _, own in pairs(type(rules.keys) == 'table' and rules.keys or {}) do
    if type(own) ~= 'table' or not none_or_all_are(is_rate, own.rate)
      or not none_or_all_are(is_whole_number, own.concurrency, own.weight) then
      return {}
    end
  end
  local is_whole = none_or_all_are(is_rate, rules.rate, rules.key_rate) and none_or_all_are(is_text, rules.strategy)
    and none_or_all_are(is_whole_number, rules.weight, rules.ageing, rules.concurrency, rules.key_concurrency)
  return is_whole and rules or {}
end

-- The rules of one key: its own, or else those of every key.
local function key_rules(rules, name)
  local own = rules.keys and rules.keys[name] or {}
  return {rate = own.rate or rules.key_rate, concurrency = own.concurrency or rules.key_concurrency}
end

-- The units of a job: those in its options, else one.
local function cost_of(member)
  local record = call('HGET', PAYLOADS, member)
  local options = record and read_payload(record).options
  local cost = options and options:find('"cost"', 1, true) and from_json(options).cost
  return is_whole_number(cost) and cost > 0 and cost or 1
end
