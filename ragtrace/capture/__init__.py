"""Turns framework callbacks into OpenTelemetry spans and, at the end of a request, into a `Trace`."""
