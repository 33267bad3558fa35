"""In their order."""
