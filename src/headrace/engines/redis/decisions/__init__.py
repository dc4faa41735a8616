"""What Python decides for Redis; one script writes it if nothing has changed meanwhile."""
