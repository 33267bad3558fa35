"""Pipelines that end with their test."""

from tests.online.conftest import make  # noqa: F401 a fixture
