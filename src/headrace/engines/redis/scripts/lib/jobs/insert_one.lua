-- A job that is inserted alone, as most are. The tables and functions that collect a batch take longer than all commands
-- of one job.

-- Insert the only job of a batch, if it is pending, has none of the rarer values and no rule applies to it; whether it
-- was inserted. It writes what `submit` and `flush_new_jobs` write for such a job.
local function insert_one(batch, mark, now, emits_events)
  local $Record[finished_at..worker]
  local _, $NewJob = take(batch, #$NewJob, 1 + #$NewJob:head)
  if state ~= 'pending' or lane ~= '' or expires_at or tags or unique_key or flow then return false end
  local known = call('HGET', QUEUES, queue)
  if call('EXISTS', TASKS) == 1 or known and known:find(' ', 1, true) then return false end
  local crashes, releases = 0, 0
  attempt = 0
  local member = string.format('%012d', call('INCRBY', P .. ':seq', '1'))
  call('HSET', IDS, id, member)
  call('HSET', PAYLOADS, member, pack($Payload))
  call('HSET', JOBS, member, pack($Record))
  call('ZADD', P .. ':queue:' .. queue, member, member)
  call('ZADD', P .. ':task:' .. task, member, member)
  call('ZADD', P .. ':in:pending:' .. queue, sort_score(priority, rank), member)
  call('ZADD', P .. ':state:pending', member, member)
  if emits_events then
    will_publish = true
    local at = text(created_at)
    store_page('[["job.enqueued",' .. at .. ',' .. json(queue) .. ',' .. json(task) .. ',null,["' .. id
      .. '"],[],[],[],[],[]]]', '1', at)
  end
  write_hour(math.floor(created_at / 3600000), member, member)
  if not known then call('HSETNX', QUEUES, queue, now) end
  ring({['work:' .. queue] = true})
  return true
end
