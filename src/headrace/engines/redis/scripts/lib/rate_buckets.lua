-- What is left of rates. A bucket is kept as the time when it will be full again.

local BUCKETS = P .. ':buckets'

-- Another rate has another bucket: what a slow one spent must not keep a fast one shut. Before each name is its length,
-- as names may have any letters.
local function bucket_of(rate, kind, ...)
  local parts = {kind, text(rate.every), text(rate.burst)}
  for _, name in ipairs({...}) do parts[#parts + 1] = #name .. ' ' .. name end
  return table.concat(parts, ' ')
end
