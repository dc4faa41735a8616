-- Append a page of events in a commit of its own.
-- ARGV: page, size, at

guard_without_memory()
store_page(ARGV[1], ARGV[2], ARGV[3])
return 1
