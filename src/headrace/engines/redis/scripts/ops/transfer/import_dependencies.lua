-- Store missing dependencies between existing jobs, as they are. No dependency is decided.
-- ARGV: dependencies (array of Dependency)

local bonds, blocks = cmsgpack.unpack(ARGV[1]), {}
local numbers_of, standing = look_up(bonds, {})
for _, bond in ipairs(bonds) do
  local parent, child = numbers_of[bond[1]], numbers_of[bond[2]]
  if parent and child and blocks[parent .. child] == nil then blocks[parent .. child] = bond[4] end
end
local found = new_ones(bonds, numbers_of, standing)
for _, bond in ipairs(found) do bond.blocks = blocks[bond.parent .. bond.child] end
guard()
tie(found, {})
return 1
