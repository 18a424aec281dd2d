"""Making tensors, and what is most natural in Python: nested lists, context managers, how a tensor prints."""

from . import _core
from ._core import Tensor, float32, full, int64
from .display import tensor_html
from .errors import DimensionMismatch, NotImplementedFeature


def _flatten(values, shape, depth, out):
    if depth == len(shape):
        out.append(values)
        return
    if not isinstance(values, (list, tuple)) or len(values) != shape[depth]:
        found = len(values) if isinstance(values, (list, tuple)) else values
        raise ValueError(f"nested lists of unequal lengths: expected {shape[depth]} at depth {depth}, found {found!r}")
    for value in values:
        _flatten(value, shape, depth + 1, out)


def _from_lists(values, dtype):
    shape, first = [], values
    while isinstance(first, (list, tuple)):
        if len(shape) == 6:  # a list that holds itself has no end
            raise DimensionMismatch("nested lists of more than 6 depths: a tensor has at most 6 axes")
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    flat = []
    _flatten(values, shape, 0, flat)
    if all(isinstance(v, bool) for v in flat) and flat:
        return _core._from_integers([int(v) for v in flat], shape, dtype or _core.bool_)
    if all(isinstance(v, int) for v in flat) and flat:
        return _core._from_integers(flat, shape, dtype or int64)
    return _core._from_numbers([float(v) for v in flat], shape, dtype or float32)


def _copied(data):
    try:
        return _core._copy_array(data)
    except TypeError:
        why = _export_error(data)
    kind = f"an array of dtype {data.dtype}" if hasattr(data, "dtype") else f"a {type(data).__name__}"
    told = f". What its own library says: {why}" if why else ""
    raise TypeError(
        f"{kind} cannot become a tensor: give numbers, nested lists of them, or an array of float16, float32, float64, int8, "
        f"int16, int32, int64, uint8 or bool in this machine's byte order{told}"
    ) from why


def _export_error(data):
    """What keeps an array's own library from handing it out, in its words: PyTorch's "use tensor.detach()"."""
    try:
        if hasattr(data, "__dlpack__"):
            data.__dlpack__()
    except Exception as why:  # as many kinds as there are libraries
        return why
    return None


def tensor(data, dtype=None, device=None, requires_grad=False) -> Tensor:
    """A tensor that holds a copy of ``data``: numbers, nested lists, or any array.

    Whole numbers become int64, others float32, booleans bool, unless ``dtype`` says otherwise; arrays keep theirs.
    """
    if dtype is not None:
        dtype = _dtype(dtype)
    if isinstance(data, Tensor):
        result = data.detach().clone()
    elif isinstance(data, (bool, int, float, list, tuple)):
        result = _from_lists(data, dtype)
    else:
        result = _copied(data)
    if dtype is not None:
        result = result.to(dtype)
    if device is not None:
        result = result.to(device=device)
    return result.requires_grad_() if requires_grad else result


def asarray(data, dtype=None, device=None) -> Tensor:
    """``data`` as a tensor, sharing its memory where that is possible (DLPack), else a copy."""
    if isinstance(data, Tensor):
        result = data
    elif hasattr(data, "__dlpack__"):
        try:
            result = _core.from_dlpack(data)
        except (BufferError, NotImplementedFeature):  # a read-only array, or one that is read backwards
            result = _copied(data)
    else:
        return tensor(data, dtype, device)
    if dtype is not None:
        result = result.to(_dtype(dtype))
    return result if device is None else result.to(device=device)


def _dtype(dtype):
    return full((), 0, dtype).dtype


def _sizes(sizes):
    return list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else list(sizes)


def zeros(*sizes, dtype=None, device=None) -> Tensor:
    """Zeros of these sizes, float32 unless ``dtype`` is given."""
    return full(_sizes(sizes), 0, dtype, device)


def ones(*sizes, dtype=None, device=None) -> Tensor:
    """Ones of these sizes, float32 unless ``dtype`` is given."""
    return full(_sizes(sizes), 1, dtype, device)


def empty(*sizes, dtype=None, device=None) -> Tensor:
    """A tensor of these sizes whose values are not to be relied on (zeros today)."""
    return full(_sizes(sizes), 0, dtype, device)


def zeros_like(x) -> Tensor:
    """Zeros of x's shape, dtype and device."""
    return full(list(x.shape), 0, x.dtype, x.device)


def ones_like(x) -> Tensor:
    """Ones of x's shape, dtype and device."""
    return full(list(x.shape), 1, x.dtype, x.device)


def rand(*sizes, dtype=None, device=None) -> Tensor:
    """Uniform in [0, 1); see :func:`manual_seed`."""
    return _core._random(_sizes(sizes), False, dtype, device)


def randn(*sizes, dtype=None, device=None) -> Tensor:
    """Normal with mean 0 and deviation 1; see :func:`manual_seed`."""
    return _core._random(_sizes(sizes), True, dtype, device)


def _counted(name, start, step, count, dtype, device):
    if count > 2**56:
        raise DimensionMismatch(f"{count} numbers are more than 2^56, which a tensor holds at most")
    last = start + (count - 1) * step if count > 1 else start
    step = step if count > 1 else 0
    if all(isinstance(v, int) for v in (start, step)):
        if not all(-(2**63) <= v < 2**63 for v in (start, last, step)):
            raise ValueError(f"{name}: its numbers are beyond the 64 bits of int64")
        made = _core._count_integers(int(start), int(step), count, dtype)
    else:
        made = _core._count_numbers(float(start), float(step), count, dtype)
    return made if device is None else made.to(device=device)


def arange(start, end=None, step=1, dtype=None, device=None) -> Tensor:
    """start, start + step, ... below end, as ``range`` counts."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ValueError("arange: step is 0, which no end is reached by")
    whole = all(isinstance(v, int) for v in (start, end, step))
    count = max(0, -int((start - end) // step))
    return _counted("arange", start, step, count, _dtype(dtype or (int64 if whole else float32)), device)


def linspace(start, end, steps, dtype=None, device=None) -> Tensor:
    """``steps`` numbers from start to end, both included."""
    if steps < 0:
        raise ValueError(f"linspace: steps is {steps}; it has to be 0 or more")
    width = (end - start) / (steps - 1) if steps > 1 else 0.0
    return _counted("linspace", float(start), width, steps, _dtype(dtype or float32), device)


def eye(n, dtype=None, device=None) -> Tensor:
    """The identity matrix [n, n]."""
    made = zeros(n, n, dtype=dtype)
    if n > 0:
        made.view(n * n)[:: n + 1].fill_(1)
    return made if device is None else made.to(device=device)


class _GradSetting:
    _enabled = False

    def __enter__(self):
        self._guards = getattr(self, "_guards", [])
        self._guards.append(_core._GradMode(self._enabled))
        return self

    def __exit__(self, *error):
        self._guards.pop()._end()

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def inner(*args, **kwargs):
            with type(self)():
                return function(*args, **kwargs)

        return inner


class no_grad(_GradSetting):
    """``with ingot.no_grad():`` nothing is recorded; also a decorator."""


class enable_grad(_GradSetting):
    """``with ingot.enable_grad():`` operations are recorded again inside ``no_grad``."""

    _enabled = True


def _numpy(self):
    """The values as a NumPy array that shares this tensor's memory. bfloat16 has no NumPy type: ``.float()`` first."""
    import numpy

    return numpy.asarray(self.detach() if self.requires_grad else self)


def _array(self, dtype=None, copy=None):
    import numpy

    array = numpy.asarray(memoryview(self.detach()))
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("a conversion needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


_PRINTED = 1000  # elements; larger tensors show their edges


def _summary(x, indent):
    if x.ndim == 0:
        value = x.item()
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    edge = 3
    count = x.shape[0]
    places = range(count) if count <= 2 * edge + 1 else [*range(edge), None, *range(count - edge, count)]
    parts = ["..." if i is None else _summary(x[i], indent + 1) for i in places]
    return "[" + (", " if x.ndim == 1 else ",\n" + " " * (indent + 1)).join(parts) + "]"


def _repr(self):
    x = self.detach().cpu()
    extra = f", dtype={str(self.dtype).removeprefix('dtype.')}" if self.dtype not in (float32, int64, _core.bool_) else ""
    if self.device != "cpu":
        extra += f", device='{self.device}'"
    if self.requires_grad:
        extra += ", requires_grad=True"
    return f"tensor({_summary(x, 7)}{extra})"


def _iterate(self):
    if self.ndim == 0:
        raise TypeError("a tensor without axes cannot be iterated over")
    return (self[i] for i in range(self.shape[0]))


def _size(self, dim=None):
    """The shape, or the size of one axis."""
    return self.shape if dim is None else self.shape[dim]


def _std(self, dim=None, correction=1.0, keepdim=False):
    """Standard deviations over axes: roots of :func:`ingot.var`."""
    return self.var(dim, correction, keepdim).sqrt()


def _max(self, dim=None, keepdim=False):
    """The largest value; with ``dim`` the largest along it and its index, as ``(values, indices)``."""
    if dim is None:
        return self.amax()
    return self.amax(dim, keepdim), self.argmax(dim, keepdim)


def _min(self, dim=None, keepdim=False):
    """The smallest value; with ``dim`` the smallest along it and its index, as ``(values, indices)``."""
    if dim is None:
        return self.amin()
    return self.amin(dim, keepdim), (-self).argmax(dim, keepdim)


def _dim(self):
    """Number of axes."""
    return self.ndim


def _t(self):
    """The transpose of a matrix."""
    return self.T


def _cuda(self):
    """A copy on the first GPU; itself where it is there."""
    return self.to(device="cuda")


def _array_namespace(self, /, *, api_version=None):
    """:mod:`ingot.array_api`, the names of the Python array API standard."""
    from . import array_api

    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"api_version: '{api_version}'; ingot.array_api has {array_api.__array_api_version__} and before")
    return array_api


def _to_device(self, device, /, *, stream=None):
    """On another device, as the Python array API standard calls ``to``."""
    if stream is not None:
        raise ValueError("to_device: streams are not taken; work goes into the device's current stream")
    return self.to(device=device)


def _matrix_transpose(self):
    """The last two axes exchanged."""
    if self.ndim < 2:
        raise ValueError(f".mT needs 2 axes, not {self.ndim}")
    return self.transpose(-1, -2)


def _conversion(dtype, name):
    def convert(self):
        return self.to(dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"With elements converted to {dtype.name}; itself where they are that."
    return convert


_conversions = {
    "float": float32,
    "double": _core.float64,
    "half": _core.float16,
    "bfloat16": _core.bfloat16,
    "int": _core.int32,
    "long": int64,
    "bool": _core.bool_,
}
_methods = {
    "numpy": _numpy,
    "_repr_html_": tensor_html,
    "__array__": _array,
    "__repr__": _repr,
    "__iter__": _iterate,
    "size": _size,
    "std": _std,
    "max": _max,
    "min": _min,
    "dim": _dim,
    "t": _t,
    "cuda": _cuda,
    "__array_namespace__": _array_namespace,
    "to_device": _to_device,
    "mT": property(_matrix_transpose),
    **{name: _conversion(dtype, name) for name, dtype in _conversions.items()},
}
for _name, _method in _methods.items():
    setattr(Tensor, _name, _method)
