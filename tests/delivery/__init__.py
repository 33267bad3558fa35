"""Scores on their way to other tools: local servers that follow their APIs, and that fail by script."""
