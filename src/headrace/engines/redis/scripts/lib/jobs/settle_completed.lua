-- The first part of an exchange: store notes and settle outcomes.

-- An outcome is matched by id and version alone.

-- The worker's events come before those that follow from them. A success event is stored
-- only if its outcome was accepted.
local function store_worker_events(completed)
  if ARGV[16] ~= '' then
    local only = completed and '["' .. table.concat(completed, '","') .. '"]'
    store_page(ARGV[16], ARGV[17], ARGV[18], only and (#completed > 0 and only or '[]'))
  end
end

-- The last values of nearly every outcome: it awaits nothing, spawned no jobs and no dependencies, has no
-- fingerprint, and would open a dead letter.
local USUAL_REST = $Outcome[awaits..]:defaults

local function settle(count, ids, outcomes)
  local members = read_in_parts('HMGET', IDS, ids, count)
  local known_members = {}
  for i = 1, count do known_members[i] = members[i] or '' end
  local records = records_of(known_members, count)
  local settled, refused, late, completed = {}, {}, {}, {}
  local has_dependencies, ended, waiting, spawns =
    settle_dependencies and settle_dependencies.dependency_flags(known_members, count), {}, {}, {}
  -- An outcome that would spawn jobs in a store that has moved is refused.
  local has_moved = has_spawns and call('HGET', P .. ':status', 'kind') == 'moved'
  local offset = count < 16 and 1 or count < 65536 and 3 or 5
  for i = 1, count do
    local $Outcome
    offset, $Outcome[..quiet] = take(outcomes, #$Outcome[..quiet], offset + #$Outcome:head)
    if outcomes:sub(offset + 1, offset + #USUAL_REST) == USUAL_REST then
      offset, opens_dead_letter = offset + #USUAL_REST, true
    else
      offset, $Outcome[awaits..] = take(outcomes, #$Outcome[awaits..], offset)
    end
    local member, record = members[i], records[i]
    local is_whole, behind, source, current, held_by, own_queue, own_lane
    if record then
      local can_begin, place, $Record[..version] = pcall(take, record, #$Record[..version])
      if can_begin then
        local can_go_on, _, $Record[attempt..lane] = pcall(take, record, #$Record[attempt..lane], place)
        is_whole = can_go_on and type(queue) == 'string' and type(lane) == 'string'
        behind, source, current, held_by, own_queue, own_lane = place, state, version, worker, queue, lane
      end
      if not is_whole then damaged[#damaged + 1] = member end
    end
    if not is_whole or current ~= version or settled[member] or (has_moved and spawned and #spawned > 0) then
      refused[#refused + 1] = i
      if is_whole then late[#late + 1] = {member, version, event, error_type, error_message, error_traceback} end
    elseif event == 'succeed' and source == 'running' then
      -- The fast path of nearly every outcome, without a table.
      settled[member] = true
      local open_children = settle_dependencies
        and settle_dependencies.awaited(member, id, has_dependencies[i] == 1, edges) or 0
      if has_spawns and spawned then spawns[#spawns + 1] = {spawned, edges} end
      finished_at = finished_at or at
      if open_children > 0 then
        if settle_other().settle_waiting(member, record, at, finished_at, result, result_checksum, open_children) then
          waiting[#waiting + 1], frees_others = member, true
        else
          refused[#refused + 1], damaged[#damaged + 1] = i, member
        end
      else
        put_record(member,
          pack('completed', finished_at, result, result_checksum, nil, $next_version(current, finished_at)) .. record:sub(behind + 1))
        drop(LEASES, member)
        drop(key_of('in:running', own_queue), member)
        if own_lane == '' then
          freed[own_queue] = true
        else
          for_each_concurrency_set(own_lane, drop, member)
          frees_others = true
        end
        add(key_of('in:completed', own_queue), text(finished_at), member)
        add(key_of('state', 'completed'), member, member)
        if held_by then add(key_of('worker', held_by), member, member) end
        completed[#completed + 1] = id
        messages.done = true
        if settle_dependencies and has_dependencies[i] == 1 then
          ended[#ended + 1] = {member = member, state = 'completed'}
        end
      end
    else
      frees_others = true
      local j = settle_other().settle(member, record, $Outcome{})
      if not j then
        refused[#refused + 1], damaged[#damaged + 1] = i, member
      else
        settled[member] = true
        if FINAL[j.state] then j.member, ended[#ended + 1] = member, j end
      end
    end
    has_changes = true
  end
  will_publish = next(messages) ~= nil
  store_worker_events(#completed < tonumber(ARGV[19]) and completed)
  flush()
  for _, l in ipairs(late) do
    settle_other().record_stale(l[1], call('HGET', JOBS, l[1]), l[2], l[3], l[4], l[5], l[6])
  end
  flush()
  if settle_dependencies then settle_dependencies.settle_edges(ended, waiting, spawns, messages) end
  return refused
end

guard_without_memory()
if outcome_count == 0 then store_worker_events() end
if note_count > 0 then settle_other().note(note_count, ARGV[12]) end
local refused = outcome_count > 0 and settle(outcome_count, cmsgpack.unpack(ARGV[9]), ARGV[10]) or {}
