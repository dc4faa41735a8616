-- What most new jobs do without: a lane, a time to wait for, a key. Made when the first one comes that does not.

return {lane_for = lane_for, enter = enter, add_key = add_key}
