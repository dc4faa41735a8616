"""Jobs in one SQLite file, shared by any number of processes on one host."""
