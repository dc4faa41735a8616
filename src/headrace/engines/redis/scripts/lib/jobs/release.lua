-- A claim that was never begun becomes pending again and gets its attempt back.

local function release(member, j, now, detail)
  record_history(member, j, now, 'release', 'pending', detail, j.finished_at)
  move(member, j, function()
    j.state, j.worker, j.started_at = 'pending', nil, nil
    j.attempt, j.releases = j.attempt - 1, j.releases + 1
  end)
end
