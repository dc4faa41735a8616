-- Deleted jobs of a batch. Created at the first one.

return {delete_job = delete_job, flush = flush_deleted}
