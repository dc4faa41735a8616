-- Whole jobs as they are read: number, record, body and the end of the lease, an array of 31 values.

local function rows_of(members, n, records)
  local rows = {}
  local bodies = ask_in_parts('HMGET', BODIES, members, n)
  local leases = ask_in_parts('ZMSCORE', LEASES, members, n)
  for i = 1, n do
    if records[i] and bodies[i] then
      local lease_until = leases[i] and tonumber(leases[i]) or nil
      rows[#rows + 1] = '\220\0\31' .. pack(members[i]) .. records[i] .. bodies[i] .. pack(lease_until)
    end
  end
  return rows
end
