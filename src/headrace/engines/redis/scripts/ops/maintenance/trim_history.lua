-- Trim the entries of each job: the first and the newest stay; of the others the oldest go first, errors last.
-- ARGV: a filter that all jobs match, after, how many jobs to read, "history" or "logs", the most entries, how many
-- stay at the start, how many stay at the end, how many entries to read
-- Answers: the number reached, or nothing at the end; how many entries were deleted

local kind, most, first, newest, budget = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]),
  tonumber(ARGV[8])
local scan_limit = tonumber(ARGV[3])

local function is_error(entry)
  if kind == 'history' then return salvage(entry, #$HistoryRow, #$HistoryRow:head)[$HistoryRow.error_type] ~= nil end
  local level = salvage(entry, #$LogLine[..level], #$LogLine:head)[$LogLine.level]
  return level == 'error' or level == 'critical'
end

-- Those of these entries that stay: `excess` others go.
local function without(entries, excess)
  local goes, left = {}, excess
  for _, errors_too in ipairs({false, true}) do
    for i, entry in ipairs(entries) do
      if left > 0 and not goes[i] and is_error(entry) == errors_too then goes[i], left = true, left - 1 end
    end
  end
  local stay = {}
  for i, entry in ipairs(entries) do
    if not goes[i] then stay[#stay + 1] = entry end
  end
  return stay, excess - left
end

local function shorten(key, length)
  local last = math.min(length - newest, first + budget) - 1
  local start = first > 0 and call('LRANGE', key, 0, first - 1) or {}
  local between = call('LRANGE', key, first, last)
  local stay, deleted_count = without(between, length - most)
  call('LTRIM', key, last + 1, -1)
  for i = #stay, 1, -1 do call('LPUSH', key, stay[i]) end
  for i = #start, 1, -1 do call('LPUSH', key, start[i]) end
  budget = budget - #between
  return deleted_count
end

local members, removed = candidates(tonumber(ARGV[2]), true, scan_limit), 0
for i, member in ipairs(members) do
  local key = P .. ':' .. kind .. ':' .. member
  local length = call('LLEN', key)
  if length > most then
    if removed == 0 then guard() end
    removed = removed + shorten(key, length)
    if budget <= 0 or call('LLEN', key) > most then return {tonumber(member) - 1, removed} end
  end
end
return {#members == scan_limit and tonumber(members[#members]) or false, removed}
