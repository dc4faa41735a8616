-- Whole jobs as they are read: number, record, body, the end of the lease, the flow and whether it has kin, an array
-- of 33 values.

local function rows_of(members, n, records)
  local rows = {}
  local bodies = ask_in_parts('HMGET', BODIES, members, n)
  local leases = ask_in_parts('ZMSCORE', LEASES, members, n)
  local flows = ask_in_parts('HMGET', ORIGINS, members, n)
  local has_kin = ask_in_parts('SMISMEMBER', KIN, members, n)
  for i = 1, n do
    if records[i] and bodies[i] then
      local lease_until = leases[i] and tonumber(leases[i]) or nil
      rows[#rows + 1] = '\220\0\33' .. pack(members[i]) .. records[i] .. bodies[i]
        .. pack(lease_until, flows[i] or nil, has_kin[i])
    end
  end
  return rows
end
