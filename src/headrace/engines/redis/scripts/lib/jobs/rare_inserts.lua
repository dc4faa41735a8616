-- Rare properties of new jobs: a lane, a later time, a key. Created when the first such job comes.

return {lane_for = lane_for, enter = enter, add_key = add_key}
