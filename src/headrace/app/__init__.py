"""Floor 4: the app and its facades, the public API."""
