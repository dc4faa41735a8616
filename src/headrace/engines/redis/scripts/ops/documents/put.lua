-- Store documents and delete others, all or none. Deletions alone have no guard: they must run when no memory is left.
-- ARGV: how many to store, then kind, key, version, value, ... of these; kind, key, version, ... of those to delete.
-- A value has the separator from its version in front
-- Answers: 1, or 0 if one of them is not at its version

local stored = 4 * tonumber(ARGV[1])
if stored > 0 then guard() end
for i = 2, stored + 1, 4 do
  if document_version(ARGV[i], ARGV[i + 1]) ~= tonumber(ARGV[i + 2]) then return 0 end
end
for i = stored + 2, #ARGV, 3 do
  local version = document_version(ARGV[i], ARGV[i + 1])
  if version == 0 or version ~= tonumber(ARGV[i + 2]) then return 0 end
end
for i = 2, stored + 1, 4 do
  local kind, key = ARGV[i], ARGV[i + 1]
  call('HSET', P .. ':documents:' .. kind, key, text(tonumber(ARGV[i + 2]) + 1) .. ARGV[i + 3])
  call('ZADD', P .. ':document_keys:' .. kind, 0, key)
  call('ZADD', DOCUMENT_KINDS, 0, kind)
end
for i = stored + 2, #ARGV, 3 do delete_document(ARGV[i], ARGV[i + 1]) end
return 1
