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
    """Writes tensors by name to one .safetensors file, whole or not at all."""
    _core._save_safetensors(str(path), dict(tensors), dict(metadata or {}))
