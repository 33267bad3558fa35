"""Our figures are those of the libraries that everybody measures with."""

import math
import random
import warnings
from pathlib import Path

import pytest

from ragtrace import plugins
from ragtrace.evaluate.models.causal import TransformersModel, likelihood
from ragtrace.evaluation import run
from ragtrace.testing import make_trace

WORDS = [
    "the", "pump", "is", "not", "covered", "for", "24", "months", "delivery", "filter", "It's", "e.g.", "(see)", ".",
]  # fmt: skip


def pairs() -> list[tuple[str, str]]:
    chance = random.Random(7)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 30))) for _ in range(2_000)]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_bleu_is_that_of_nltk() -> None:
    """On a thousand random pairs, to 1e-9, for n from 1 to 4."""
    nltk = pytest.importorskip("nltk", reason="nltk is not installed: pip install 'ragtrace-otel[eval]'")
    tokens = nltk.tokenize.NLTKWordTokenizer().tokenize
    traces = [make_trace(answer=a, reference=b) for a, b in pairs()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (1, 2, 3, 4):
            ours = [score.value for (score,) in run(plugins.load(f"bleu_{n}"), traces)]
            theirs = [
                nltk.translate.bleu_score.sentence_bleu([tokens(b)], tokens(a), weights=[1 / n] * n) for a, b in pairs()
            ]
            assert ours == pytest.approx(theirs, abs=1e-9)


def test_rouge_is_that_of_rouge_score() -> None:
    scorer = pytest.importorskip(
        "rouge_score.rouge_scorer", reason="rouge-score is not installed: pip install 'ragtrace-otel[eval]'"
    )
    traces = [make_trace(answer=a, reference=b) for a, b in pairs()]
    for ours, theirs in (("rouge_1", "rouge1"), ("rouge_2", "rouge2"), ("rouge_l", "rougeL")):
        found = [score.value for (score,) in run(plugins.load(ours), traces)]
        expected = [scorer.RougeScorer([theirs]).score(b, a)[theirs].fmeasure for a, b in pairs()]
        assert found == pytest.approx(expected, abs=1e-9)
    for answer, value in (("Насос стоит девять евро", 1.0), ("Насос весит девять кило", 0.5)):  # noqa: RUF001
        trace = make_trace(answer=answer, reference="Насос стоит девять евро")  # noqa: RUF001
        assert run(plugins.load("rouge_1"), [trace])[0][0].value == value


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal language model of random weights with a tokenizer of words, as `save_pretrained` writes them."""
    torch = pytest.importorskip(
        "torch", reason="torch is not installed: pip install 'ragtrace-otel[sentence-transformers]'"
    )
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = sorted({w for a, b in pairs() for w in (a + " " + b).split()})
    vocabulary = {w: i for i, w in enumerate(["<unk>", *words])}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder = tmp_path_factory.mktemp("tiny")
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>").save_pretrained(folder)
    torch.manual_seed(7)
    config = transformers.GPT2Config(vocab_size=len(vocabulary), n_positions=2_048, n_embd=32, n_layer=2, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def test_perplexity_is_the_exponential_of_the_models_own_loss(tiny: Path) -> None:
    """To 1e-4, for texts within the window; any folder or name of Hugging Face's serves."""
    import torch
    import transformers

    ours = TransformersModel(str(tiny))
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny)
    for text, _ in pairs()[:50]:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        if ids.shape[1] < 2:
            continue
        with torch.no_grad():
            loss = float(model(ids, labels=ids).loss)
        assert math.exp(likelihood(ours, text).cross_entropy) == pytest.approx(math.exp(loss), rel=1e-4)


def test_a_long_text_slides_through_the_window(tiny: Path) -> None:
    """Each of the first 1,000 tokens is scored once, after what of the text before fits; the others are counted."""
    ours = TransformersModel(str(tiny))
    alone = likelihood(ours, "the pump is covered " * 700)
    assert (len(alone.logprobs), alone.cut, alone.unread) == (1_000, 0, 2_800 - 1 - 1_000)
    after = likelihood(ours, "the pump is covered " * 200, prefix="the pump is covered " * 700)
    assert (len(after.logprobs), after.unread, after.cut) == (800, 0, 2_800 + 800 - 1_024)
