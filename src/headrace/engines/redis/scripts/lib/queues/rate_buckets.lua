-- Rate buckets. A bucket is stored as the time when it will be full again.

local RATE_BUCKETS = P .. ':rate_buckets'

-- The name includes the rate: tokens spent under a slow rate must not block a faster one. Each name has its length in
-- front, as names may contain any character.
local function bucket_of(rate, kind, ...)
  local parts = {kind, text(rate.every), text(rate.burst)}
  for _, name in ipairs({...}) do parts[#parts + 1] = #name .. ' ' .. name end
  return table.concat(parts, ' ')
end
