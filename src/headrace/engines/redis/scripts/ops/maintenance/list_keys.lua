-- The types and sizes of some keys, without their values.
-- ARGV: the keys
-- Answers, for each that exists: the key, its type, its number of entries, its milliseconds to live (-1: no expiry),
-- and its bytes (-1: unknown)

local COUNTS = {hash = 'HLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD', stream = 'XLEN'}
local answer = {}
for _, key in ipairs(ARGV) do
  local kind = call('TYPE', key).ok
  if kind ~= 'none' then
    local bytes = redis.pcall('MEMORY', 'USAGE', key)
    answer[#answer + 1] = {
      key,
      kind,
      COUNTS[kind] and call(COUNTS[kind], key) or 1,
      call('PTTL', key),
      type(bytes) == 'number' and bytes or -1,
    }
  end
end
return answer
