-- Store a page of events by itself.
-- ARGV: page, size, at

guard_without_memory()
store_page(ARGV[1], ARGV[2], ARGV[3])
return 1
