-- Initialize an empty store, or return its version. Checks that we may write and publish here.
-- ARGV: the version to begin with, a random name for the store, now
-- Answers: the version found, the store's name

local version = call('GET', P .. ':schema')
if version and tonumber(version) > tonumber(ARGV[1]) then return {tonumber(version), false} end
if version then guard_without_memory() else guard() end
call('PUBLISH', P .. ':bell', 'open')
if not version then call('SET', P .. ':schema', ARGV[1]) end
call('SETNX', P .. ':store', ARGV[2])
return {tonumber(version or 0), call('GET', P .. ':store')}
