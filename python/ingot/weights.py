"""Weights of any format: safetensors, GGUF, PyTorch, NumPy, ONNX, TensorFlow, Keras."""

from . import _core


def open(path):  # noqa: A001 -- as ingot.open()
    """Opens a file or directory of weights, or a name on the Hub; tensors are read when they are asked for.

    >>> weights = ingot.open("model.gguf")
    >>> weights.keys(), weights["token_embd.weight"].shape
    """
    return _core._open_weights(str(path))


def load(path):
    """Every tensor of a file or directory, by name."""
    return _core._open_weights(str(path)).load()


def save(tensors, path, metadata=None):
    """Writes tensors by name to one file, whole or not at all: NAME.safetensors, NAME.gguf, NAME.npz, NAME.pt
    (a state dict for ``torch.load``), or NAME.npy of one tensor.
    ``metadata``: texts by key, of the first two."""
    _core._save_weights(str(path), dict(tensors), dict(metadata or {}))


def adapter_list(adapters) -> list[tuple[str, float]]:
    """LoRA directories with their weights, of one directory, several, or pairs."""
    if isinstance(adapters, (str, bytes)) or hasattr(adapters, "__fspath__"):
        adapters = [adapters]
    return [(str(a[0]), float(a[1])) if isinstance(a, tuple) else (str(a), 1.0) for a in adapters or []]


def convert(source, destination, *, to="", dtype="", max_shard_bytes=0) -> str:
    """Writes a model, or weights alone, in another format; the path of what was written.

    ``destination``: NAME.gguf, NAME.npz, NAME.safetensors, NAME.pt or a directory. ``dtype``: ``"f32"``, ``"bf16"``, ``"f16"`` or,
    for GGUF, a block format; as stored where it is not given. ``max_shard_bytes``: several files above this.
    """
    return _core._convert(str(source), str(destination), to, dtype, max_shard_bytes)


def quantize(source, destination, format="q8_0") -> str:
    """Rounds a model's weights to fewer bits: llama.cpp's formats (``"q8_0"``, ``"q4_k"``...) in NAME.gguf, ``"int4"``,
    ``"int8"``, ``"fp8"``, ``"nf4"`` and ``"nvfp4"`` in a directory. The path of what was written."""
    return _core._quantize(str(source), str(destination), format)


def merge(model, adapters, destination, *, dtype="") -> str:
    """Adds LoRA adapters (a directory, several, or ``(directory, weight)``) to the weights of their model, and writes
    ``destination``, a directory."""
    return _core._merge(str(model), adapter_list(adapters), str(destination), dtype)
