"""MiniCheck: language models that say whether a document supports a sentence (Tang, Laban, Durrett 2024).

Prompts, cuts and probabilities are those of github.com/Liyan06/MiniCheck. Its authors use one sentence at a time, and
the best of the document's pieces for each."""

import re
from collections.abc import Sequence

from ragtrace.errors import ModelError
from ragtrace.evaluate.models.external.libraries import RUN, PretrainedModel
from ragtrace.evaluate.models.external.passages import passages, windows
from ragtrace.text.sentences import split

_SYSTEM = (
    "Determine whether the provided claim is consistent with the corresponding document. Consistency in this context "
    "implies that all information presented in the claim is substantiated by the document. If not, it should be "
    "considered inconsistent. Please assess the claim's consistency with the document by responding with either "
    '"Yes" or "No".'
)
_TOP = 5
"""Likeliest first tokens of an answer that are read."""


class Generator(PretrainedModel):
    """What both kinds of language models share: texts without the tokenizer's marks, cut into sentences."""

    room: int

    def __init__(self, name: str, loader: str, trust: bool = False) -> None:
        """See `PretrainedModel`."""
        super().__init__(name, loader, trust=trust, dtype="auto")
        special = {str(token) for token in self.tokenizer.added_tokens_decoder.values() if token.special}
        marks = sorted({*special, *self.tokenizer.all_special_tokens}, key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, marks)) or r"(?!)")

    def plain(self, text: str) -> str:
        """The text with a space inside the tokenizer's marks: a text must not end its turn, nor begin another one."""
        return self._marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text)

    def statements(self, answer: str) -> list[str]:
        """The sentences of an answer; one that leaves no room for a passage is cut."""
        sentences = (answer[s.start : s.end] for s in split(answer))
        return [piece for s in sentences for piece in windows(s, max(16, self.room // 2), self.tokens)]


class Seq2SeqMiniCheck(Generator):
    """MiniCheck-Flan-T5: an encoder reads document and sentence, and as the first token 1 (supported) or 0."""

    _TOKENS = 2_048
    _WORDS = 500
    """Words of a passage."""
    _SPECIAL = 8

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError, or ModelError."""
        super().__init__(name, "AutoModelForSeq2SeqLM")
        self.room = self._TOKENS - self._SPECIAL
        # 3 and 209 in T5's vocabulary: the first tokens of "0" and "1".
        self._labels = [int(self.tokenizer(label, add_special_tokens=False)["input_ids"][0]) for label in ("0", "1")]
        if len(set(self._labels)) < len(self._labels):
            raise ModelError(f"the model {name!r} cannot tell 0 from 1; name a MiniCheck model")

    def passages(self, context: str, longest: int) -> list[str]:
        """The context in pieces of whole sentences, of at most 500 words."""
        pieces = passages(context, self._WORDS, lambda text: len(text.split()))
        return [w for piece in pieces for w in windows(piece, max(16, self.room - longest), self.tokens)]

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair the probability of the label 1 against 0."""
        import torch

        end = self.tokenizer.eos_token
        probabilities: list[float] = []
        for start in range(0, len(pairs), RUN):
            texts = [
                f"predict: {self.plain(document)}{end}{self.plain(claim)}"
                for document, claim in pairs[start : start + RUN]
            ]
            inputs = self.tokenizer(
                texts, max_length=self._TOKENS, truncation=True, padding=True, return_tensors="pt"
            ).to(self.device)
            first = torch.full((len(texts), 1), int(self.model.config.decoder_start_token_id), device=self.device)
            with torch.no_grad():
                logits = self.model(
                    input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], decoder_input_ids=first
                ).logits[:, 0, self._labels]
            probabilities += [float(p) for p in torch.softmax(logits.float(), -1)[:, 1]]
        return probabilities


class CausalMiniCheck(Generator):
    """Bespoke-MiniCheck: a chat model that answers Yes or No; the probability of Yes as its first token counts."""

    _TOKENS = 4_096
    """Tokens of a prompt at most, also where the model takes more: attention over them costs their square."""

    def __init__(self, name: str, trust: bool = False) -> None:
        """`trust` runs the code that comes with the weights. Raises MissingExtraError, or ModelError."""
        super().__init__(name, "AutoModelForCausalLM", trust)
        if not self.tokenizer.chat_template:
            raise ModelError(f"the model {name!r} has no chat template; name a Bespoke-MiniCheck model")
        most = min(self._TOKENS, int(getattr(self.model.config, "max_position_embeddings", self._TOKENS)))
        self.room = most - self.tokens(self._prompt("", ""))

    def _prompt(self, document: str, claim: str) -> str:
        messages = [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": f"Document: {self.plain(document)}\nClaim: {self.plain(claim)}"},
        ]
        return str(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))

    def passages(self, context: str, longest: int) -> list[str]:
        """The context in pieces of whole sentences, as long as the model can read beside the claim."""
        room = max(16, self.room - longest)
        pieces = passages(context, room, self.tokens)
        return [w for piece in pieces for w in windows(piece, room, self.tokens)]

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair the probability of Yes among the five likeliest first tokens."""
        return [self._yes(self._prompt(document, claim)) for document, claim in pairs]

    def _yes(self, prompt: str) -> float:
        import torch

        inputs = self.tokenizer(prompt, add_special_tokens=False, return_tensors="pt").to(self.device)
        with torch.no_grad():
            output = self.model.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=1,
                do_sample=False, pad_token_id=self.tokenizer.eos_token_id, return_dict_in_generate=True,
                output_logits=True,
            )  # fmt: skip
        top = torch.softmax(output.logits[0][0].float(), -1).topk(_TOP)
        words = [self.tokenizer.decode([int(token)]).strip().lower() for token in top.indices]
        return sum(float(p) for word, p in zip(words, top.values, strict=True) if word == "yes")
