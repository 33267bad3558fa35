"""The version, in one place: the build and the instrumentation scope read it."""

__version__ = "0.2.0"
