-- Initialize an empty store, or return its version. Checks that we may write and publish here.
-- ARGV: the version to begin with, a random name for the store, now
-- Answers: the version found, the store's name; no name for a newer layout, and version 0 without one for a layout of
-- before the first release, which had its version in another key; version -1 without one if it is no number

if call('EXISTS', P .. ':schema') == 1 then return {0, false} end
local version = call('GET', P .. ':version')
if version and not string.match(version, '^%d+$') then return {-1, false} end
if version and tonumber(version) > tonumber(ARGV[1]) then return {tonumber(version), false} end
if version then guard_without_memory() else guard() end
call('PUBLISH', P .. ':bell', 'open')
if not version then call('SET', P .. ':version', ARGV[1]) end
call('SETNX', P .. ':store', ARGV[2])
return {tonumber(version or 0), call('GET', P .. ':store')}
