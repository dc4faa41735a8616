-- The dependencies of these jobs, as parent or as child.
-- ARGV: count, ids
-- Answers: the numbers of child and parent, their ids, the letter of the policy, whether it blocks, ...

local count = tonumber(ARGV[1])
local known = read_in_parts('HMGET', IDS, cmsgpack.unpack(ARGV[2]), count)
local answer, requested, ids = {}, {}, {}

local function id_of(member)
  if ids[member] == nil then
    local j = job_of(call('HGET', JOBS, member))
    ids[member] = j and j.id or false
  end
  return ids[member]
end

local function add_to_answer(child, parent, policy, is_blocking)
  if not id_of(child) or not id_of(parent) then return end
  for _, part in ipairs({child, parent, id_of(child), id_of(parent), policy, is_blocking}) do
    answer[#answer + 1] = part
  end
end

for i = 1, count do
  local member = known[i]
  if member and not requested[member] then
    requested[member] = true
    local is_blocking, parents = {}, call('HGETALL', parents_of(member))
    for _, parent in ipairs(call('SMEMBERS', blocks_of(member))) do is_blocking[parent] = true end
    for k = 1, #parents, 2 do
      add_to_answer(member, parents[k], parents[k + 1], is_blocking[parents[k]] and 1 or 0)
    end
  end
end
-- Those whose child was requested as well are already in the answer.
for member in pairs(requested) do
  local children = call('HGETALL', children_of(member))
  for k = 1, #children, 2 do
    local child = children[k]
    if not requested[child] then
      add_to_answer(child, member, children[k + 1], call('SISMEMBER', blocks_of(child), member))
    end
  end
end
return answer
