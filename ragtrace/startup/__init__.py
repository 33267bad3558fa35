"""Builds a running ragtrace from its settings, and checks an installation."""
