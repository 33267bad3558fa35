"""Names of models' providers: the frameworks' own become OpenTelemetry's and OpenInference's."""

from ragtrace import semconv
from ragtrace.capture.content import Attributes

_NAMES = {
    "azure": "azure.ai.openai", "azure_openai": "azure.ai.openai", "azure_ai": "azure.ai.inference",
    "azure_inference": "azure.ai.inference", "amazon_bedrock": "aws.bedrock", "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock", "gemini": "gcp.gemini", "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai", "vertex": "gcp.vertex_ai", "mistral": "mistral_ai", "mistralai": "mistral_ai",
    "ibm": "ibm.watsonx.ai", "xai": "x_ai",
}  # fmt: skip
"""OpenTelemetry's names for the providers that a framework calls otherwise."""
_OPENINFERENCE: dict[str, tuple[str, str | None]] = {
    "openai": ("openai", "openai"), "azure.ai.openai": ("azure", "openai"), "azure.ai.inference": ("azure", None),
    "anthropic": ("anthropic", "anthropic"), "cohere": ("cohere", "cohere"), "mistral_ai": ("mistralai", "mistralai"),
    "aws.bedrock": ("aws", None), "gcp.gemini": ("google", None), "gcp.vertex_ai": ("google", "vertexai"),
    "ibm.watsonx.ai": ("ibm", None), "x_ai": ("xai", None),
}  # fmt: skip
"""OpenInference's provider and system by OpenTelemetry's name; every other provider has one name in both."""


def provider_name(name: str) -> str:
    """Returns OpenTelemetry's name of a provider, which may be the framework's own."""
    return _NAMES.get(name, name)


def provider_attributes(provider: object) -> Attributes:
    """Returns the attribute of a model's provider, given by any framework's name or OpenTelemetry's."""
    return {semconv.PROVIDER: provider_name(provider)} if isinstance(provider, str) and provider else {}


def openinference_provider(name: str | None) -> Attributes:
    """Returns OpenInference's attributes of a provider, given by OpenTelemetry's name."""
    provider, system = _OPENINFERENCE.get(name or "", (name, None))
    names = {semconv.OI_PROVIDER: provider, semconv.OI_SYSTEM: system}
    return {key: value for key, value in names.items() if value}
