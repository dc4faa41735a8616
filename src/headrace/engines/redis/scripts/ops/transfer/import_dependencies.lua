-- Store missing dependencies between existing jobs, as they are, without deciding any.
-- ARGV: dependencies (array of Dependency)

local edges, blocks = cmsgpack.unpack(ARGV[1]), {}
local numbers_of, existing = look_up(edges, {})
for _, edge in ipairs(edges) do
  local parent, child = numbers_of[edge[$Dependency.parent]], numbers_of[edge[$Dependency.child]]
  if parent and child and blocks[parent .. child] == nil then blocks[parent .. child] = edge[$Dependency.blocks] end
end
local found = new_edges(edges, numbers_of, existing)
for _, edge in ipairs(found) do edge.blocks = blocks[edge.parent .. edge.child] end
guard()
add_edges(found, {})
return 1
