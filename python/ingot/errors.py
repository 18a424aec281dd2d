"""What goes wrong, as exceptions with fields.

Every error of Ingot is an :class:`Error` and, where Python has a word for it, that built-in exception too, so both
``except ingot.errors.ShapeMismatch`` and ``except ValueError`` work.
"""


class Error(Exception):
    """Base of all errors. ``kind`` is a stable name such as ``"shape_mismatch"``."""

    kind: str = "error"


class InvalidConfig(Error, ValueError):
    """A setting that cannot be used. ``key`` is its dotted path."""

    key: str


class ShapeMismatch(Error, ValueError):
    """Two shapes that had to agree do not: ``expected`` and ``actual``."""

    expected: tuple[int, ...]
    actual: tuple[int, ...]


class DimensionMismatch(Error, ValueError):
    """A rank, axis, index or size that an operation cannot take."""


class DeviceNotAvailable(Error, RuntimeError):
    """``device`` is not there."""

    device: str


class DeviceMismatch(Error, ValueError):
    """Tensors of one operation are on different devices: ``expected`` and ``actual``."""

    expected: str
    actual: str


class OutOfMemory(Error, MemoryError):
    """Sizes are in bytes; ``limit`` is 0 where none was set. Lower the batch size or the context, or quantize."""

    requested: int
    in_use: int
    limit: int


class KernelError(Error, TypeError):
    """An operation cannot run on these dtypes or values. ``kernel`` is its name."""

    kernel: str


class NotImplementedFeature(Error, NotImplementedError):
    """``feature`` does not exist yet."""

    feature: str


class IoError(Error, OSError):
    """Reading or writing ``path`` failed."""

    path: str


class FormatError(Error, ValueError):
    """A file's content is not what its format allows: ``path``, ``offset`` in bytes (-1: not known), ``field``."""

    path: str
    offset: int
    field: str


class DataError(Error, ValueError):
    """A table that cannot be used: ``path``, ``line`` (from 1) and ``column`` of what is wrong."""

    path: str
    line: int
    column: str


class NonFinite(Error, ArithmeticError):
    """A NaN or an infinity where none may be. ``where`` names the operation, tensor or step. Lower the learning rate, or set ``detect_anomaly``."""

    where: str


class InvalidHand(Error, ValueError):
    """Tiles that are not a hand of mahjong."""


class IllegalAction(Error, ValueError):
    """An action that a game does not allow now; nothing has moved."""


class Busy(Error, RuntimeError):
    """A second thread's call of what takes one call at a time."""


class QueueFull(Error, RuntimeError):
    """More requests wait already than are allowed to."""


class TemplateError(Error, ValueError):
    """A chat template that cannot be read or that refuses its messages."""


_CLASSES: dict[str, type[Error]] = {
    "invalid_config": InvalidConfig,
    "shape_mismatch": ShapeMismatch,
    "dimension_mismatch": DimensionMismatch,
    "device_not_available": DeviceNotAvailable,
    "device_mismatch": DeviceMismatch,
    "out_of_memory": OutOfMemory,
    "kernel_error": KernelError,
    "not_implemented": NotImplementedFeature,
    "io_error": IoError,
    "format_error": FormatError,
    "data_error": DataError,
    "non_finite": NonFinite,
    "queue_full": QueueFull,
    "invalid_hand": InvalidHand,
    "illegal_action": IllegalAction,
    "busy": Busy,
    "template_error": TemplateError,
}


def _make(kind: str, message: str, fields: dict) -> Error:
    error = _CLASSES.get(kind, Error)(message)
    for name, value in fields.items():
        setattr(error, name, value)
    return error
