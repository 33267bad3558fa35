"""LettuceDetect: token classifiers that mark the words of an answer that its context does not support.

Kovács and Recski 2025. Prompts, cuts and probabilities are those of github.com/KRLabsOrg/LettuceDetect."""

import re
from collections.abc import Sequence

from ragtrace.base.lazy import groups_of
from ragtrace.errors import ModelError
from ragtrace.evaluate.models.external.consistency import Consistency
from ragtrace.evaluate.models.external.libraries import PretrainedModel
from ragtrace.evaluate.models.external.passages import nearest, windows

_QUESTION = (
    "Briefly answer the following question:\n{question}\nBear in mind that your response should be strictly based on "
    "the following {count} passages:\n{context}\nIn case the passages do not contain the necessary information to "
    'answer the question, please reply with: "Unable to answer based on given passages."\noutput:'
)
_SUMMARY = "Summarize the following text:\n{context}\noutput:"
_UNSUPPORTED = re.compile(r"(?:\w*[ _-])?(?:hallucinat\w*|unsupported|label_1)")
_GROUPS = 8
"""Groups of passages that are read for one part of an answer."""
_PARTS = 8
"""Parts of a long answer that are read."""
_SURE = 0.5
"""Probability from which a token counts as not supported."""


class TokenClassifier(PretrainedModel):
    """Per token of the answer the probability that the context does not support it."""

    _TOKENS = 4_096
    """Tokens of prompt and answer at most, as in LettuceDetect."""
    _SPECIAL = 3

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError without transformers, ModelError for one that cannot be loaded or has others."""
        super().__init__(name, "AutoModelForTokenClassification")
        config = self.model.config
        labels = {int(i): str(label).lower() for i, label in config.id2label.items()}
        columns = [i for i, label in labels.items() if _UNSUPPORTED.fullmatch(label)]
        if len(labels) != 2 or len(columns) != 1:
            raise ModelError(f"none of the token classifier's labels {sorted(labels.values())} alone says hallucinated")
        self._column = columns[0]
        self.most = min(self._TOKENS, int(self.tokenizer.model_max_length), int(config.max_position_embeddings))
        """Tokens of prompt and answer together."""

    def consistency(self, question: str, documents: Sequence[str], answer: str) -> Consistency:
        """1 minus the greatest probability of a token of the answer. A token's probability is the greatest over the
        groups of passages, if they are too many to be read at once."""
        parts = windows(answer, max(16, self.most // 2), self.tokens)
        greatest, spans, read, in_all = 0.0, [], 0, 0
        for part in parts[:_PARTS]:
            groups = self.groups(question, documents, part)
            prompts = nearest([self.prompt(question, group) for group in groups], part, _GROUPS)
            marks = self._marks(prompts, part)
            greatest = max(greatest, *(probability for _, _, probability in marks), 0.0)
            spans += _spans(marks, part)
            read, in_all = max(read, len(prompts)), max(in_all, len(groups))
        return Consistency(
            value=1.0 - greatest, windows=read, windows_in_all=in_all, parts=min(len(parts), _PARTS),
            parts_in_all=len(parts), window_rule="worst", unsupported=tuple(spans),
        )  # fmt: skip

    def prompt(self, question: str, passages: Sequence[str]) -> str:
        """The first text of the pair, of which the answer is the second."""
        context = "\n".join(f"passage {i}: {passage}" for i, passage in enumerate(passages, 1))
        form = _QUESTION if question.strip() else _SUMMARY
        return form.format(question=question, count=len(passages), context=context)

    def groups(self, question: str, documents: Sequence[str], answer: str) -> list[list[str]]:
        """The documents in groups, each of which the model can read with the question and the answer."""
        room = self.most - self.tokens(answer) - self._SPECIAL
        if self.tokens(self.prompt(question, documents)) <= room:
            return [list(documents)]
        room = max(16, room - self.tokens(self.prompt(question, [""])))
        label = self.tokens("passage 100: \n")
        passages = (w for document in documents for w in windows(document, max(16, room - label), self.tokens))
        return list(groups_of(passages, lambda passage: self.tokens(passage) + label, room))

    def _marks(self, prompts: Sequence[str], answer: str) -> list[tuple[int, int, float]]:
        """Start and end of each token of the answer, and its probability of not being supported."""
        rows = [self._read(prompt, answer) for prompt in prompts]
        return [
            (start, end, max(p for _, _, p in same)) for same in zip(*rows, strict=True) for start, end, _ in same[:1]
        ]

    def _read(self, prompt: str, answer: str) -> list[tuple[int, int, float]]:
        import torch

        encoding = self.tokenizer(
            prompt, answer, truncation="only_first", max_length=self.most, return_offsets_mapping=True,
            return_tensors="pt",
        )  # fmt: skip
        inputs = {name: encoding[name].to(self.device) for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            rows = torch.softmax(self.model(**inputs).logits[0].float(), -1)[:, self._column].tolist()
        places = zip(encoding.sequence_ids(0), encoding["offset_mapping"][0].tolist(), rows, strict=True)
        return [(start, end, p) for text, (start, end), p in places if text == 1 and end > start]


def _spans(marks: Sequence[tuple[int, int, float]], answer: str) -> list[str]:
    """The runs of tokens that count as not supported."""
    spans: list[list[int]] = []
    is_open = False
    for start, end, probability in marks:
        if probability < _SURE:
            is_open = False
        elif is_open:
            spans[-1][1] = end
        else:
            spans.append([start, end])
            is_open = True
    return [answer[start:end].strip() for start, end in spans]
