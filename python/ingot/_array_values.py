"""Of :mod:`ingot.array_api`: creation, dtypes, and functions element by element."""


import builtins
import math

from . import _core, _tensor
from ._core import Tensor, float32, float64, int8, int16, int32, int64, uint8
from ._core import bool_ as bool  # noqa: A001
from ._core import broadcast_to, cos, exp, sin, sqrt, tanh, where as _where

__array_api_version__ = "2024.12"

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None

_FLOATS = (float32, float64, _core.float16, _core.bfloat16)
_INTEGERS = (int8, int16, int32, int64, uint8)
_BITS = {bool: 8, int8: 8, uint8: 8, int16: 16, int32: 32, int64: 64, float32: 32, float64: 64}
_NAMES = {bool: "bool", **{dtype: dtype.name for dtype in _BITS if dtype is not bool}}


def _is_float(x):
    return x.dtype in _FLOATS


def _is_whole(x):
    return x.dtype in _INTEGERS


def _axes(axis, rank):
    if axis is None:
        return list(range(rank))
    return [a % rank for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]


def _both(a, b):
    """Two operands as tensors of one dtype: numbers take the tensor's."""
    if not isinstance(a, Tensor):
        a = asarray(a, dtype=b.dtype)
    if not isinstance(b, Tensor):
        b = asarray(b, dtype=a.dtype)
    common = result_type(a, b)
    return a.to(common), b.to(common)


# What the namespace is, for those who ask.


class _Info:
    """What ``__array_namespace_info__()`` answers."""

    def capabilities(self):
        """What depends on values is not there: no boolean indexing, no shapes that depend on values."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 6}

    def default_device(self):
        """Tensors are made on the CPU unless a device is named."""
        return "cpu"

    def default_dtypes(self, *, device=None):
        """float32 and int64."""
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def devices(self):
        """``"cpu"``, and what else there is, by name."""
        return ["cpu", *_core._other_devices()]

    def dtypes(self, *, device=None, kind=None):
        """dtypes by name, all of a kind or of several."""
        return {name: dtype for dtype, name in _NAMES.items() if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__():
    """Devices, dtypes and limits."""
    return _Info()


# Creation.


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """``obj`` as a tensor: shared where it can be (``copy=None``), always copied, or, ``copy=False``, never (ValueError)."""
    if isinstance(obj, Tensor):
        result = obj if dtype is None else obj.to(dtype)
        result = result if device is None else result.to(device=device)
        if copy is False and result.data_ptr() != obj.data_ptr():
            raise ValueError("asarray: another dtype or device needs a copy")
        return result.clone() if copy and result.data_ptr() == obj.data_ptr() else result
    if copy is False and not hasattr(obj, "__dlpack__"):
        raise ValueError(f"asarray: a {type(obj).__name__} can only be copied")
    if copy:
        return _tensor.tensor(obj, dtype, device)
    return _tensor.asarray(obj, dtype, device)


def from_dlpack(x, /, *, device=None, copy=None):
    """A tensor over the memory of ``x``; a copy where ``copy`` asks for it, and where another device needs one (``copy=False``: ValueError)."""
    return asarray(x if isinstance(x, Tensor) else _core.from_dlpack(x), device=device, copy=copy)


def _filled(shape, value, dtype, device):
    return _core.full([shape] if isinstance(shape, int) else list(shape), value, dtype, device)


def zeros(shape, *, dtype=None, device=None):
    """Zeros."""
    return _filled(shape, 0, dtype, device)


def ones(shape, *, dtype=None, device=None):
    """Ones."""
    return _filled(shape, 1, dtype, device)


def empty(shape, *, dtype=None, device=None):
    """Values that are not to be relied on."""
    return _filled(shape, 0, dtype, device)


def _dtype_of(value):
    return bool if isinstance(value, builtins.bool) else int64 if isinstance(value, int) else float32


def full(shape, fill_value, *, dtype=None, device=None):
    """``fill_value`` everywhere; of the dtype that Python's number has where none is given."""
    shape = [shape] if isinstance(shape, int) else list(shape)
    dtype = _dtype_of(fill_value) if dtype is None else dtype
    if dtype in _INTEGERS and builtins.abs(fill_value) > 2**53:  # a double does not hold it
        return broadcast_to(_tensor.tensor(fill_value, dtype, device), shape).clone()
    return _core.full(shape, fill_value, dtype, device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros of x's shape."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones of x's shape."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def empty_like(x, /, *, dtype=None, device=None):
    """Of x's shape, values not to be relied on."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """``fill_value`` in x's shape."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, ... before stop."""
    if stop is None:
        start, stop = 0, start
    whole = builtins.all(isinstance(value, int) for value in (start, stop, step))
    count = builtins.max(0, -((start - stop) // step) if whole else math.ceil((stop - start) / step))
    dtype = dtype or (int64 if whole else float32)
    values = [start + i * step for i in range(int(count))]
    if dtype in _INTEGERS:
        values = [int(value) for value in values]
    return _tensor.tensor(values, dtype, device) if values else zeros(0, dtype=dtype, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """``num`` numbers from start to stop."""
    parts = num - 1 if endpoint else num
    values = [float(start) + (float(stop) - float(start)) * i / parts if parts else float(start) for i in range(num)]
    if endpoint and num > 1:
        values[-1] = float(stop)
    return _tensor.tensor(values, dtype or float32, device) if values else zeros(0, dtype=dtype or float32, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on diagonal k, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    rows, columns, k = arange(n_rows), arange(n_cols), builtins.max(-n_rows, builtins.min(k, n_cols))
    return ((columns - k)[None, :] == rows[:, None]).to(dtype or float32).to(device=device or "cpu")


def _triangle(x, k, lower):
    rows, columns = arange(x.shape[-2]).to(device=x.device), arange(x.shape[-1]).to(device=x.device)
    difference = columns[None, :] - rows[:, None]
    return _where(difference <= k if lower else difference >= k, x, zeros((), dtype=x.dtype, device=x.device))


def tril(x, /, *, k=0):
    """Zeros above diagonal k."""
    return _triangle(x, k, True)


def triu(x, /, *, k=0):
    """Zeros below diagonal k."""
    return _triangle(x, k, False)


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid, for each of the one-dimensional ``arrays``."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing: '{indexing}' is neither xy nor ij")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[0], order[1] = 1, 0
    shape = [0] * len(arrays)
    for place, x in zip(order, arrays):
        shape[place] = x.shape[0] if x.ndim else 1
    made = []
    for place, x in zip(order, arrays):
        sizes = [1] * len(arrays)
        sizes[place] = shape[place]
        made.append(broadcast_to(x.reshape(sizes), shape))
    return made


# dtypes.


def astype(x, dtype, /, *, copy=True, device=None):
    """With elements converted."""
    result = x.to(dtype) if device is None else x.to(dtype).to(device=device)
    return result.clone() if copy and result.data_ptr() == x.data_ptr() else result


def result_type(*arrays_and_dtypes):
    """The dtype in which operands of one kind meet; TypeError where the standard leaves it open."""
    found = None
    numbers = []
    for item in arrays_and_dtypes:
        if not isinstance(item, (Tensor, type(float32))):
            numbers.append(item)
            continue
        dtype = item.dtype if isinstance(item, Tensor) else item
        if found is None:
            found = dtype
            continue
        common = _core._common_dtype(found, dtype)
        if common is None:
            raise TypeError(f"{found.name} and {dtype.name} have no common dtype: convert one with astype()")
        found = common
    if found is None:
        raise TypeError("result_type needs an array or a dtype")
    for number in numbers:
        fits = {bool: found is bool, int64: found is not bool, float32: found in _FLOATS}[_dtype_of(number)]
        if not fits:
            raise TypeError(f"a Python {type(number).__name__} beside {found.name}")
    return found


def can_cast(from_, to, /):
    """Whether values of one dtype (or tensor) become the other under the rules of promotion."""
    dtype = from_.dtype if isinstance(from_, Tensor) else from_
    return _core._common_dtype(dtype, to) == to


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``, ``"real floating"``,
    ``"complex floating"``, ``"numeric"``, a dtype, or a tuple of them."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return dtype == kind
    kinds = {
        "bool": (bool,),
        "signed integer": (int8, int16, int32, int64),
        "unsigned integer": (uint8,),
        "integral": _INTEGERS,
        "real floating": _FLOATS,
        "complex floating": (),
        "numeric": _INTEGERS + _FLOATS,
    }
    if kind not in kinds:
        raise ValueError(f"isdtype: '{kind}' is none of {', '.join(kinds)}")
    return dtype in kinds[kind]


class finfo:
    """Limits of a floating dtype: bits, eps, max, min, smallest_normal, dtype."""

    _KNOWN = {
        float32: (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126),
        float64: (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022),
        _core.float16: (16, 2.0**-10, 65504.0, 2.0**-14),
        _core.bfloat16: (16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
    }

    def __init__(self, type, /):
        self.dtype = type.dtype if isinstance(type, Tensor) else type
        if self.dtype not in self._KNOWN:
            raise ValueError(f"finfo: {self.dtype.name} is not a floating dtype")
        self.bits, self.eps, self.max, self.smallest_normal = self._KNOWN[self.dtype]
        self.min = -self.max


class iinfo:
    """Limits of a whole-number dtype: bits, max, min, dtype."""

    def __init__(self, type, /):
        self.dtype = type.dtype if isinstance(type, Tensor) else type
        if self.dtype not in _INTEGERS:
            raise ValueError(f"iinfo: {self.dtype.name} holds no whole numbers")
        self.bits = _BITS[self.dtype]
        signed = self.dtype is not uint8
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0


def broadcast_shapes(*shapes):
    """The shape that all broadcast to."""
    rank = builtins.max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[i] not in (1, size):
                raise ValueError(f"shapes {shapes} do not broadcast")
            result[i] = size if result[i] == 1 else result[i]
    return tuple(result)


def broadcast_arrays(*arrays):
    """All in the shape that they broadcast to."""
    shape = list(broadcast_shapes(*(x.shape for x in arrays)))
    return [broadcast_to(x, shape) for x in arrays]


# Element by element.


def abs(x, /):  # noqa: A001
    """|x|."""
    if _is_float(x):
        return _core.abs(x)
    return x.clone() if x.dtype == uint8 else _where(x < 0, -x, x)


def add(x1, x2, /):
    """x1 + x2."""
    a, b = _both(x1, x2)
    return a + b


def subtract(x1, x2, /):
    """x1 - x2."""
    a, b = _both(x1, x2)
    return a - b


def multiply(x1, x2, /):
    """x1 · x2."""
    a, b = _both(x1, x2)
    return a * b


def square(x, /):
    """x · x."""
    return multiply(x, x)


def divide(x1, x2, /):
    """x1 / x2, of floating dtypes."""
    a, b = _both(x1, x2)
    return a / b


def negative(x, /):
    """-x."""
    return -x


def positive(x, /):
    """The same values."""
    return x.clone()


def maximum(x1, x2, /):
    """The larger of each pair; NaN where one is."""
    a, b = _both(x1, x2)
    return _where(a != a, a, _where(b != b, b, _where(a >= b, a, b)))


def minimum(x1, x2, /):
    """The smaller of each pair; NaN where one is."""
    a, b = _both(x1, x2)
    return _where(a != a, a, _where(b != b, b, _where(a <= b, a, b)))


def clip(x, /, min=None, max=None):  # noqa: A002
    """x, no less than min and no more than max."""
    result = x
    if min is not None:
        low = min if isinstance(min, Tensor) else asarray(min, dtype=x.dtype)
        result = _where(result < low, low.to(x.dtype), result)
    if max is not None:
        high = max if isinstance(max, Tensor) else asarray(max, dtype=x.dtype)
        result = _where(result > high, high.to(x.dtype), result)
    return result.clone() if result is x else result


def reciprocal(x, /):
    """1 / x."""
    return _core.reciprocal(x)


def log(x, /):
    """Natural logarithm."""
    return _core.log(x)


def log2(x, /):
    """Logarithm to base 2."""
    return _core.log(x) / math.log(2)


def log10(x, /):
    """Logarithm to base 10."""
    return _core.log(x) / math.log(10)


def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2))."""
    a, b = broadcast_arrays(*_both(x1, x2))
    high, low = maximum(a, b), minimum(a, b)
    return _where(isfinite(high), high + _core.log(exp(_where(isfinite(high), low - high, low)) + 1), high)


def tan(x, /):
    """Tangent."""
    return sin(x) / cos(x)


def floor(x, /):
    """The largest whole number that is not above x."""
    return _core.floor(x) if _is_float(x) else x.clone()


def ceil(x, /):
    """The smallest whole number that is not below x."""
    return _core.ceil(x) if _is_float(x) else x.clone()


def round(x, /):  # noqa: A001
    """The nearest whole number, of two the even one."""
    return _core.round(x) if _is_float(x) else x.clone()


def trunc(x, /):
    """The whole number towards zero."""
    return _where(x < 0, _core.ceil(x), _core.floor(x)) if _is_float(x) else x.clone()


def sign(x, /):
    """-1, 0 or 1; NaN of NaN."""
    if _is_float(x):
        return _where(x == x, _core.sign(x) + 0, x)  # + 0: of -0, too
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype) if x.dtype != uint8 else (x > 0).to(x.dtype)


def isnan(x, /):
    """Whether each is NaN."""
    return x != x


def isinf(x, /):
    """Whether each is infinite."""
    return _core.abs(x) == inf if _is_float(x) else zeros_like(x, dtype=bool)


def isfinite(x, /):
    """Whether each is a number, neither NaN nor infinite."""
    return _core.abs(x) < inf if _is_float(x) else ones_like(x, dtype=bool)


def equal(x1, x2, /):
    """x1 == x2."""
    a, b = _both(x1, x2)
    return a == b


def not_equal(x1, x2, /):
    """x1 != x2."""
    a, b = _both(x1, x2)
    return a != b


def less(x1, x2, /):
    """x1 < x2."""
    a, b = _both(x1, x2)
    return a < b


def less_equal(x1, x2, /):
    """x1 <= x2."""
    a, b = _both(x1, x2)
    return a <= b


def greater(x1, x2, /):
    """x1 > x2."""
    a, b = _both(x1, x2)
    return a > b


def greater_equal(x1, x2, /):
    """x1 >= x2."""
    a, b = _both(x1, x2)
    return a >= b


def logical_not(x, /):
    """Not x."""
    return ~x


def logical_and(x1, x2, /):
    """x1 and x2, of booleans."""
    a, b = _both(x1, x2)
    return a & b


def logical_or(x1, x2, /):
    """x1 or x2, of booleans."""
    a, b = _both(x1, x2)
    return a | b


def logical_xor(x1, x2, /):
    """Either, not both, of booleans."""
    a, b = _both(x1, x2)
    return a ^ b


def where(condition, x1, x2, /):
    """x1 where the condition holds, else x2."""
    a, b = _both(x1, x2)
    return _where(condition, a, b)
