-- What some keys are and how large, without their values.
-- ARGV: the keys
-- Answers, for each that is there: the key, its type, how many entries, its milliseconds to live (-1: it stays), and its
-- bytes (-1: the server does not tell)

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
