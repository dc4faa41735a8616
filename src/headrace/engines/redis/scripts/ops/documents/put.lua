-- Store documents, all or none.
-- ARGV: kind, key, version, value, ...
-- Answers: 1, or 0 if one of them is not at its version

guard()
for i = 1, #ARGV, 4 do
  if document_version(ARGV[i], ARGV[i + 1]) ~= tonumber(ARGV[i + 2]) then return 0 end
end
for i = 1, #ARGV, 4 do
  local kind, key = ARGV[i], ARGV[i + 1]
  call('HSET', P .. ':documents:' .. kind, key, text(tonumber(ARGV[i + 2]) + 1) .. ' ' .. ARGV[i + 3])
  call('ZADD', P .. ':document_keys:' .. kind, 0, key)
  call('ZADD', DOCUMENT_KINDS, 0, kind)
end
return 1
