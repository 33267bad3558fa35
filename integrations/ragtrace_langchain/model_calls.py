"""Reads what LangChain says of a model call before it: settings, tools, server, and the prompt's template."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ragtrace import semconv
from ragtrace.capture.content import Attributes
from ragtrace.capture.content_blocks import tool_definitions
from ragtrace.capture.model_messages import PromptTemplate, ToolDefinition
from ragtrace.capture.parameters import provider_attributes, request_attributes, server_attributes

_Converted = TypeVar("_Converted")
_MODEL_ID = re.compile(r"model_id='([^']+)'")


def model_attributes(
    serialized: Any, metadata: Mapping[str, Any], parameters: Mapping[str, Any]
) -> tuple[Attributes, Attributes]:
    """Returns a model's attributes before it answers, and those that only OpenInference has. Parameters are read by
    name only: others may hold credentials."""
    attributes: Attributes = {}
    model = metadata.get("ls_model_name") or _model_of(parameters, serialized)
    if isinstance(model, str) and model:
        attributes[semconv.REQUEST_MODEL] = model
    provider = metadata.get("ls_provider")
    if not provider and isinstance(kind := parameters.get("_type"), str):  # LangChain's type, e.g. `openai-chat`
        provider = kind.removesuffix("-chat").replace("-", "_")
    attributes.update(provider_attributes(provider))
    standard = {name: metadata.get(f"ls_{name}") for name in ("temperature", "max_tokens", "stop")}
    settings, extra = request_attributes((parameters, standard), attributes.get(semconv.REQUEST_MODEL))
    attributes.update(settings)
    own = serialized.get("kwargs") if isinstance(serialized, Mapping) else None
    attributes.update(server_attributes((parameters, own if isinstance(own, Mapping) else {})))
    return attributes, extra


def _model_of(parameters: Mapping[str, Any], serialized: Any) -> Any:
    """Returns a model's name from its settings, or from the text of a ChatHuggingFace, for a class that names none."""
    for name in ("model_name", "model", "model_id", "repo_id"):
        if isinstance(value := parameters.get(name), str) and value:
            return value
    if not isinstance(serialized, Mapping) or serialized.get("name") != "ChatHuggingFace":
        return None
    match = _MODEL_ID.search(str(serialized.get("repr")))
    return match and match[1]


def tools_of(parameters: Mapping[str, Any]) -> list[ToolDefinition]:
    """Returns the definitions of the tools that the model may call, also of tools that were bound as they are."""
    tools = next((parameters[name] for name in ("tools", "functions") if parameters.get(name) is not None), None)
    if not isinstance(tools, (list, tuple)) or all(isinstance(tool, Mapping) for tool in tools):
        return tool_definitions(tools)
    return tool_definitions([tool if isinstance(tool, Mapping) else _cached(tool, _definition_of) for tool in tools])


def _definition_of(tool: Any) -> Mapping[str, Any]:
    """Returns the definition of a tool that was bound as it is. To build it takes longer than to trace a call."""
    from langchain_core.utils.function_calling import convert_to_openai_tool

    try:
        return convert_to_openai_tool(tool)
    except Exception:  # noqa: BLE001 no tool: LangChain cannot convert it for the model, either
        return {}


def tool_of(serialized: Any, name: str) -> ToolDefinition:
    """Returns the definition of a tool that is called."""
    description = serialized.get("description") if isinstance(serialized, Mapping) else None
    return ToolDefinition(name, description if isinstance(description, str) else None)


def prompt_of(serialized: Any, inputs: Any) -> PromptTemplate | None:
    """Returns the template of a prompt as LangChain serializes it, with the values of its variables, or None."""
    kwargs = serialized.get("kwargs") if isinstance(serialized, Mapping) else None
    if not isinstance(kwargs, Mapping):
        return None
    templates = _cached(serialized, _templates)
    fixed = kwargs.get("partial_variables")
    fixed = fixed if isinstance(fixed, Mapping) else {}
    names = kwargs.get("input_variables")
    names = names if isinstance(names, (list, tuple)) else ()
    if not isinstance(inputs, Mapping):  # a prompt with one variable takes its value alone
        inputs = {names[0]: inputs} if len(names) == 1 else {}
    variables = {**fixed, **{str(name): inputs[name] for name in names if name in inputs}}
    return PromptTemplate("\n".join(templates) or None, variables) if templates or variables else None


_CACHED = 256
"""Prompts and tools whose conversions are cached at most."""
_cache: dict[int, tuple[object, Any]] = {}
"""Conversions by the identity of the object: LangChain passes the same one to each run. The entry holds the object, so
that no other one gets its identity."""


def _cached(item: object, convert: Callable[[Any], _Converted]) -> _Converted:
    """Returns what `convert` makes of an object. An object has one conversion."""
    entry = _cache.get(id(item))
    if entry is None or entry[0] is not item:
        if len(_cache) >= _CACHED:
            _cache.clear()
        entry = _cache[id(item)] = item, convert(item)
    converted: _Converted = entry[1]
    return converted


def _templates(serialized: Any, depth: int = 0) -> list[str]:
    """Returns the texts of a template and of the message templates inside it, in their order."""
    kwargs = serialized.get("kwargs") if isinstance(serialized, Mapping) else None
    if not isinstance(kwargs, Mapping) or depth > 4:
        return []
    texts = [kwargs[name] for name in ("template", "content") if isinstance(kwargs.get(name), str)][:1]
    for name in ("prompt", "messages"):
        inner = kwargs.get(name)
        for item in inner if isinstance(inner, Sequence) and not isinstance(inner, str) else (inner,):
            texts += _templates(item, depth + 1)
    return texts
