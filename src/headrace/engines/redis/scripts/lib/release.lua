-- A claim that was never begun goes back to where it came from, with its attempt.

local function release(member, j, now, detail)
  file(member, j, now, 'release', 'pending', detail, j.finished_at)
  move(member, j, function()
    j.state, j.worker, j.started_at = 'pending', nil, nil
    j.attempt, j.releases = j.attempt - 1, j.releases + 1
  end)
end
