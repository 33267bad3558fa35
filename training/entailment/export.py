"""Write the trained cross-encoder as ONNX: python training/entailment/export.py --model FILE.pt --out FILE.onnx

The model is not part of ragtrace yet. Its matrices are int8. Activations are quantised when the model runs, with one
scale for each matrix product, so that pairs are run one by one: what else is asked must not change a probability.
MatMulNBits, whose results do not depend on the batch, took twice as long on a processor without VNNI.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from train import Entailment

_NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plain", type=Path, help="write the model in 32-bit floats there, too")
    options = parser.parse_args()
    model = Entailment()
    model.load_state_dict(torch.load(options.model, weights_only=True)["state"])
    model.eval()
    ids = torch.randint(1000, 20000, (2, 40))
    with tempfile.TemporaryDirectory() as folder:
        plain = options.plain or Path(folder) / "model.onnx"
        torch.onnx.export(
            model,
            (ids, torch.ones_like(ids), torch.zeros_like(ids)),
            plain,
            input_names=_NAMES,
            output_names=["logits"],
            dynamic_axes={name: {0: "b", 1: "n"} for name in _NAMES} | {"logits": {0: "b"}},
            opset_version=17,
            dynamo=False,
        )
        quantize_dynamic(plain, options.out, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    print(options.out, options.out.stat().st_size, hashlib.sha256(options.out.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
