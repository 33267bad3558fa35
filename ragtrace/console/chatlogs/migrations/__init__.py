"""Alembic's migrations; see `migrating`. Each one stays as it is for ever: stores of its time exist."""
