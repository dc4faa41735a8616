-- The effects of finished jobs of a batch on others. Created where there are dependencies.

return {propagate = propagate}
