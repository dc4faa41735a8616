-- Store a command for a worker to read at its next renewal.
-- ARGV: worker, command
-- Answers: 1, or 0 if there is no such worker

local known = call('HGET', P .. ':workers', ARGV[1])
if not known then return 0 end
guard()
local is_whole, _, $WorkerRow = pcall(take, known, #$WorkerRow, #$WorkerRow:head)
if not is_whole then return 0 end
command = ARGV[2]
call('HSET', P .. ':workers', id, $WorkerRow:head .. pack($WorkerRow))
ring({commands = true})
return 1
