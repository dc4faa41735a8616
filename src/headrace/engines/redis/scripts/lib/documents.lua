-- Shared by the scripts for documents.

local SHELVES = P .. ':shelves'

-- The version of a document, 0 if it does not exist.
local function version_of(kind, key)
  local held = call('HGET', P .. ':papers:' .. kind, key)
  return held and tonumber(string.match(held, '^%d+')) or 0
end

local function take_away(kind, key)
  call('HDEL', P .. ':papers:' .. kind, key)
  call('ZREM', P .. ':shelf:' .. kind, key)
  if call('EXISTS', P .. ':shelf:' .. kind) == 0 then call('ZREM', SHELVES, kind) end
end
