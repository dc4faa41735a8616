-- Delete finished jobs, at exactly this version and not held. Their dependents do not change.
-- ARGV: ids, versions, now
-- Answers: the positions of those that were deleted

if call('EXISTS', P .. ':status') == 1 then return {} end -- nothing is deleted during a transfer

local ids, versions, now = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2]), tonumber(ARGV[3])
local members, places = {}, {}
for i, member in ipairs(read_in_parts('HMGET', IDS, ids, #ids)) do
  if member then members[#members + 1], places[#places + 1] = member, i end
end
local count = #members
if count == 0 then return {} end
local records = records_of(members, count)
local flows = read_in_parts('HMGET', JOB_FLOW, members, count)
local has_dependencies = dependency_flags(members, count)
local removed = {}
for i, member in ipairs(members) do
  local j = job_of(records[i])
  if j and FINAL[j.state] and j.version == versions[places[i]]
    and not is_held(member, j, flows[i] or nil, has_dependencies[i]) then
    delete_job(member, j, now)
    removed[#removed + 1] = places[i]
  end
end
if #removed == 0 then return removed end
flush_deleted({})
drop_old_hours()
ring({done = true})
return removed
