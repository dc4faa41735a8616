-- Replace the rules of a task.
-- ARGV: name, TaskRules in JSON, or nothing for none

guard()
if ARGV[2] == '' then
  call('HDEL', TASKS, ARGV[1])
else
  call('HSET', TASKS, ARGV[1], ARGV[2])
end
ring({work = true})
return 1
