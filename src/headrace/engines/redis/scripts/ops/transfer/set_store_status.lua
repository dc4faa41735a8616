-- Set or clear the store status. No other script runs meanwhile, so it holds from here on.
-- ARGV: kind, other, at; or nothing

if #ARGV == 0 then
  call('DEL', P .. ':status')
else
  guard()
  call('HSET', P .. ':status', 'kind', ARGV[1], 'other', ARGV[2], 'at', ARGV[3])
end
ring({work = true})
return 1
