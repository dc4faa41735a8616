"""Floor 5: integrations with other software. Each module needs an extra, and nothing imports them."""
