"""Floor 5: the web surface, which is the REST API and the dashboard."""
