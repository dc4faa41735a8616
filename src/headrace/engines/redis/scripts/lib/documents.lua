-- Shared by the scripts for documents.

local DOCUMENT_KINDS = P .. ':document_kinds'

-- The version of a document, 0 if it does not exist.
local function version_of(kind, key)
  local held = call('HGET', P .. ':documents:' .. kind, key)
  return held and tonumber(string.match(held, '^%d+')) or 0
end

local function take_away(kind, key)
  call('HDEL', P .. ':documents:' .. kind, key)
  call('ZREM', P .. ':document_keys:' .. kind, key)
  if call('EXISTS', P .. ':document_keys:' .. kind) == 0 then call('ZREM', DOCUMENT_KINDS, kind) end
end
