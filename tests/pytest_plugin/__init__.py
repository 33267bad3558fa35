"""Tests of pytest's plugin."""
