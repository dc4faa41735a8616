"""Floor 4: the app and its facades, which users hold in their hands."""
