-- Resolve pending dead letters.
-- ARGV: now, status, by, remark, ids
-- Answers: the ids of those that were pending

local now, status, by, remark = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
if by == '' then by = nil end
local done, seen = {}, {}
for _, id in ipairs(cmsgpack.unpack(ARGV[5])) do
  local packed = not seen[id] and call('HGET', DEAD_LETTERS, id)
  local l = packed and read_dead_letter(packed, id)
  if l and l.status == 'pending' then
    resolve_dead_letter(l, status, now, by, l.requeues, remark)
    done[#done + 1], seen[id] = id, true
  end
end
if #done > 0 then
  guard()
  flush()
end
return done
