"""Tests of ragtrace/tracing."""
