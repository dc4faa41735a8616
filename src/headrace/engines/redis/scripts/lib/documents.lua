-- Shared by the scripts for documents.

local DOCUMENT_KINDS = P .. ':document_kinds'

-- The version of a document, 0 if it does not exist.
local function document_version(kind, key)
  local stored = call('HGET', P .. ':documents:' .. kind, key)
  return stored and tonumber(string.match(stored, '^%d+')) or 0
end

local function delete_document(kind, key)
  call('HDEL', P .. ':documents:' .. kind, key)
  call('ZREM', P .. ':document_keys:' .. kind, key)
  if call('EXISTS', P .. ':document_keys:' .. kind) == 0 then call('ZREM', DOCUMENT_KINDS, kind) end
end
