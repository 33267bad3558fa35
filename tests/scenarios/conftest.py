"""The frameworks, traced with content."""

from tests.conftest import traced_langchain as langchain  # noqa: F401 a fixture
from tests.langchain.conftest import handler  # noqa: F401 a fixture
from tests.llama_index.conftest import _open_databases  # noqa: F401 a fixture
from tests.llama_index.conftest import instrumented as llama_index  # noqa: F401 a fixture
