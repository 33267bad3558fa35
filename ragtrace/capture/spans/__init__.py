"""Turns spans that other tracing libraries recorded into the `Trace` of each request."""
