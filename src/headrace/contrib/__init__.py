"""Floor 5: what ties headrace to other software. Each module needs an extra, and nothing imports them."""
