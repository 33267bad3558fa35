"""Finds and masks personal data and secrets: one engine, and rules as data beside it (`data/*.toml`)."""
