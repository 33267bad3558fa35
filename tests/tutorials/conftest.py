"""The server that plays the model."""

from tests.vendors.conftest import _no_key_of_the_machine, _vendors, vendors  # noqa: F401 fixtures
