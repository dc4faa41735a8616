"""Floor 3: running jobs, and the handles by which users submit and follow them."""
