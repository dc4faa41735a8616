-- Jobs of a batch that run again. Created at the first one.

return {state_of_revived = state_of_revived, reopen_key = reopen_key, reopen = reopen}
