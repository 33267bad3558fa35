"""The messages of a model call, as every adapter gives them. `message_attributes` writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtrace.text.sanitizer import sendable


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text in a message that has other parts, too."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What a model thought before it answered, or the summary that its provider gives of it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call that the model asks for."""

    name: str
    arguments: object = None
    """A mapping, or the text that the model wrote where it is not JSON."""
    id: str | None = None
    kind: str = "tool"
    """`tool`, or `server` for a tool that the provider runs."""
    error: str | None = None
    """Why the framework could not read the call."""


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What a tool returned to the model."""

    content: object
    """Text, a sequence of parts, or any other value."""
    id: str | None = None
    """The id of the call."""
    kind: str = "tool"
    """`tool`, or `server` for a tool that the provider runs."""


@dataclass(frozen=True, slots=True)
class MediaPart:
    """An image, a sound, a video or a file. One of `uri`, `data` and `file_id` says where it is."""

    modality: str
    """`image`, `audio`, `video` or `document`."""
    uri: str | None = None
    data: str | None = None
    """The content in base64."""
    file_id: str | None = None
    """The id of a file that was uploaded to the provider."""
    mime_type: str | None = None
    name: str | None = None
    """The name of the file."""
    transcript: str | None = None
    """Its text."""


Part = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | MediaPart


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A message to or from a model."""

    role: str
    """`system`, `user`, `assistant` or `tool`, or the framework's own word for another role."""
    content: str | Sequence[Part] = ""
    """Text alone, or parts in their order."""
    name: str | None = None
    """The name of the participant, or of the tool that answered."""
    finish_reason: str | None = None
    """Why the model stopped; None where it reported no reason."""

    @property
    def text(self) -> str:
        """The text of the message: without reasoning, calls, and what is no text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part_text(part) for part in self.content)

    @property
    def is_result(self) -> bool:
        """Whether the message holds nothing but results of tools: Anthropic's and Bedrock's are the user's."""
        return not isinstance(self.content, str) and all(isinstance(part, ToolResultPart) for part in self.content)

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        """The calls in the message."""
        if isinstance(self.content, str):
            return ()
        return tuple(part for part in self.content if isinstance(part, ToolCallPart))


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that a model may call."""

    name: str
    description: str | None = None
    parameters: Mapping[str, object] | None = None
    """JSON schema of the arguments."""
    type: str = "function"
    """`function`, or the provider's word for a tool that it runs itself."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The template of which a prompt was made, and the values in it."""

    template: str | None = None
    variables: Mapping[str, object] | None = None


def part_text(part: Part) -> str:
    """The text of a part; empty for a part that is no text, and for reasoning."""
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, ToolResultPart):
        content = part.content
        if isinstance(content, str):
            return content
        if isinstance(content, (list, tuple)):
            return "".join(part_text(item) for item in content if isinstance(item, Part))
        return "" if content is None else sendable(content)
    return ""


def media_part(
    modality: str, location: object, mime_type: object = None, name: object = None, file_id: object = None
) -> MediaPart:
    """Returns an image, sound or file at a URI. A `data:` URI becomes the data itself, with its MIME type."""
    mime, title, uri = text_or_none(mime_type), text_or_none(name), text_or_none(location)
    if uri is not None and uri.startswith("data:"):
        head, _, data = uri[5:].partition(",")
        return MediaPart(modality, data=data, mime_type=head.partition(";")[0] or mime, name=title)
    return MediaPart(modality, uri=uri, file_id=text_or_none(file_id), mime_type=mime, name=title)


def modality_of(mime_type: object) -> str:
    """Returns the modality of a MIME type: `image`, `audio`, `video`, or `document` for every other type."""
    kind = mime_type.partition("/")[0] if isinstance(mime_type, str) else ""
    return kind if kind in {"image", "audio", "video"} else "document"


def last_question(messages: Sequence[ModelMessage]) -> str | None:
    """Returns the text of the last message of the user, or None where the user wrote none."""
    users = (message for message in reversed(messages) if message.role == "user")
    return next((message.text for message in users if message.text and not message.is_result), None)


def text_or_none(value: object) -> str | None:
    """Returns a text that is not empty, or None for anything else."""
    return value if isinstance(value, str) and value else None
