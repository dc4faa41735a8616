-- Jobs in the form of answers: number, record, payload record, the end of the lease, the flow and whether it has
-- dependencies, a StoredJob. Light rows leave out values of more than `longest` bytes: the
-- payload and the result.

local function without_long(values, place, longest)
  if #values <= longest then return values end
  local is_whole, from, to, value = pcall(function()
    local from = place > 1 and take(values, place - 1) or 0
    return from, take(values, 1, from)
  end)
  if not is_whole or type(value) ~= 'string' or #value <= longest then return values end
  return values:sub(1, from) .. pack('') .. (to < 0 and '' or values:sub(to + 1))
end

local function rows_of(members, n, records, longest)
  local rows = {}
  local payload_records = not longest and read_in_parts('HMGET', PAYLOADS, members, n)
  local leases = read_in_parts('ZMSCORE', LEASES, members, n)
  local flows = read_in_parts('HMGET', JOB_FLOW, members, n)
  local has_dependencies = read_in_parts('SMISMEMBER', HAS_DEPENDENCIES, members, n)
  for i = 1, n do
    -- Long ones are read one by one, so that they are not all in memory at once.
    local record, payload_record = records[i],
      longest and call('HGET', PAYLOADS, members[i]) or payload_records and payload_records[i]
    if record and payload_record then
      local lease_until = leases[i] and tonumber(leases[i]) or nil
      if longest then
        record = without_long(record, $Record.result, longest)
        payload_record = without_long(payload_record, $Payload.payload, longest)
      end
      rows[#rows + 1] = $StoredJob:head .. pack(members[i]) .. record .. payload_record
        .. pack(lease_until, flows[i] or nil, has_dependencies[i])
    end
  end
  return rows
end
