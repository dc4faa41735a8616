-- Removing a job with everything that is its own; its dead letters stay.

local gone, gone_ids, gone_keys = {}, {}, {}

local function erase(member, j)
  local n = #gone + 1
  gone[n], gone_ids[n] = member, j.id
  gone_keys[2 * n - 1], gone_keys[2 * n] = P .. ':h:' .. member, P .. ':l:' .. member
  leave(member, j)
  drop(named('queue', j.queue), member)
  drop(named('task', j.task), member)
  local body = call('HGET', BODIES, member)
  if body then
    local _, _, _, _, tags, _, _, key = take(body, 7)
    for _, tag in ipairs(tags and cjson.decode(tags) or {}) do drop(named('tag', tag), member) end
    if key then
      drop(named('unique', key), member)
      if FINAL[j.state] then drop(past(j.state, key), member) end
    end
  end
end

-- No guard before it: what frees memory must work when there is none left. Its first write takes something away.
local function flush_erased()
  in_parts('HDEL', IDS, gone_ids, #gone_ids)
  in_parts('HDEL', JOBS, gone, #gone)
  in_parts('HDEL', BODIES, gone, #gone)
  for i = 1, #gone_keys, AT_ONCE do
    call('UNLINK', unpack(gone_keys, i, math.min(i + AT_ONCE - 1, #gone_keys)))
  end
  flush()
end
