-- Delete documents, all or none. No guard before it: it must run when no memory is left.
-- ARGV: kind, key, version, ...
-- Answers: 1, or 0 if one of them is not at its version

for i = 1, #ARGV, 3 do
  local version = document_version(ARGV[i], ARGV[i + 1])
  if version == 0 or version ~= tonumber(ARGV[i + 2]) then return 0 end
end
for i = 1, #ARGV, 3 do delete_document(ARGV[i], ARGV[i + 1]) end
return 1
