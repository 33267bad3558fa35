"""Scores on their way to the tools in which people look at traces."""
