-- New jobs of a batch, each with its history. Created at the first one.

-- Add them to the pending writes.
local function insert_all(inserts, mark)
  local next_number = reserve_numbers(#inserts)
  for _, one in ipairs(inserts) do
    local job, member = one[1], next_number()
    submit(member, mark, unpack(job, 1, #$NewJob))
    grow_queue(job[$NewJob.queue], 1)
    for _, entry in ipairs(one[2]) do
      append_to('history', member, $HistoryRow:head .. pack(unpack(entry, 1, #$HistoryRow)))
    end
  end
end

return {insert_all = insert_all, flush = flush_new_jobs, announce = announce}
