"""The Python array API standard (2024.12) over :class:`ingot.Tensor`: what it has of it, under the standard's names.

Libraries that ask an array for its namespace get this module (``x.__array_namespace__()``), and so does ``import ingot.array_api as
xp``. dtypes are bool, int8, int16, int32, int64, uint8, float32 and float64. Not here, as there are no kernels for them: complex
and wider unsigned numbers, functions whose result's shape depends on values (``nonzero``, ``unique``, masks as indices), sorting,
cumulative sums, bits of whole numbers, inverse and hyperbolic functions but ``tanh``. docs/python.md tells what the conformance
suite finds.
"""

import builtins
import math

from . import _core
from ._array_values import *  # noqa: F401,F403 -- the other half of the names
from ._array_values import (
    __array_api_version__,
    __array_namespace_info__,
    _axes,
    _both,
    _is_float,
    _where,
    arange,
    asarray,
    bool,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    float32,
    float64,
    full,
    int64,
    nan,
    result_type,
    sqrt,
    zeros,
)
from ._core import Tensor

# Matmuls.


def matmul(x1, x2, /):
    """Matrices multiplied over the last two axes; whole numbers exactly below 2^53."""
    a, b = _both(x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul takes no numbers without axes")
    return a @ b if _is_float(a) else (a.to(float64) @ b.to(float64)).to(a.dtype)


def matrix_transpose(x, /):
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError("matrix_transpose needs two axes")
    return x.transpose(-1, -2)


def vecdot(x1, x2, /, *, axis=-1):
    """Sums of products along an axis."""
    a, b = _both(x1, x2)
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot: {a.shape[axis]} and {b.shape[axis]} elements along axis {axis}")
    a, b = broadcast_arrays(moveaxis(a, axis, -1), moveaxis(b, axis, -1))
    return sum(a * b, axis=-1, dtype=a.dtype)


def tensordot(x1, x2, /, *, axes=2):
    """Products summed over the named axes of both, or over the last of x1 and the first of x2."""
    a, b = _both(x1, x2)
    if isinstance(axes, int):
        axes = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    over_a, over_b = _axes(tuple(axes[0]), a.ndim), _axes(tuple(axes[1]), b.ndim)
    keep_a = [i for i in range(a.ndim) if i not in over_a]
    keep_b = [i for i in range(b.ndim) if i not in over_b]
    size = math.prod(a.shape[i] for i in over_a)
    left = permute_dims(a, (*keep_a, *over_a)).reshape([math.prod(a.shape[i] for i in keep_a), size])
    right = permute_dims(b, (*over_b, *keep_b)).reshape([size, math.prod(b.shape[i] for i in keep_b)])
    return matmul(left, right).reshape([*(a.shape[i] for i in keep_a), *(b.shape[i] for i in keep_b)])


# Shapes.


def reshape(x, /, shape, *, copy=None):
    """In another shape; -1 is what is left."""
    result = x.reshape(list(shape) if not isinstance(shape, int) else [shape])
    if copy is False and math.prod(x.shape) and result.data_ptr() != x.data_ptr():
        raise ValueError("reshape: these strides need a copy")
    return result.clone() if copy else result


def permute_dims(x, /, axes):
    """Axes in another order."""
    return _core.permute(x, [axis % x.ndim for axis in axes]) if x.ndim else x


def moveaxis(x, source, destination, /):
    """Axes moved to other positions, the others in their order."""
    source, destination = _axes(source, x.ndim), _axes(destination, x.ndim)
    order = [i for i in range(x.ndim) if i not in source]
    for place, axis in sorted(zip(destination, source)):
        order.insert(place, axis)
    return permute_dims(x, order)


def expand_dims(x, /, axis=0):
    """With an axis of size 1 more."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"axis {axis} is out of range for {x.ndim + 1} axes")
    return x.unsqueeze(axis)


def squeeze(x, /, axis):
    """Without axes of size 1."""
    for one in sorted(_axes(axis, x.ndim), reverse=True):
        if x.shape[one] != 1:
            raise ValueError(f"squeeze: axis {one} has size {x.shape[one]}, not 1")
        x = x.squeeze(one)
    return x


def concat(arrays, /, *, axis=0):
    """Concatenated along an axis; ``axis=None``: flattened first."""
    common = result_type(*arrays)
    arrays = [x.to(common) for x in arrays]
    if axis is None:
        arrays, axis = [x.reshape([-1]) for x in arrays], 0
    return _core.cat(arrays, axis)


def stack(arrays, /, *, axis=0):
    """Stacked along a new axis."""
    common = result_type(*arrays)
    return _core.stack([x.to(common) for x in arrays], axis)


def unstack(x, /, *, axis=0):
    """The parts along an axis, without it."""
    moved = moveaxis(x, axis, 0)
    return tuple(moved[i] for i in range(moved.shape[0]))


def take(x, indices, /, *, axis=None):
    """The rows that whole numbers name, along an axis."""
    axis = 0 if axis is None else axis % x.ndim
    return x.index_select(axis, _from_front(indices, x.shape[axis]))


def take_along_axis(x, indices, /, *, axis=-1):
    """For each index the element that it names along an axis."""
    axis %= x.ndim
    shape = broadcast_shapes(x.shape[:axis] + x.shape[axis + 1 :], indices.shape[:axis] + indices.shape[axis + 1 :])
    full_x = broadcast_to(x, [*shape[:axis], x.shape[axis], *shape[axis:]])
    return full_x.gather(axis, broadcast_to(_from_front(indices, x.shape[axis]), [*shape[:axis], indices.shape[axis], *shape[axis:]]))


def _from_front(indices, size):
    indices = indices.to(int64)
    return _where(indices < 0, indices + size, indices)


def flip(x, /, *, axis=None):
    """Backwards along axes, all of them by default."""
    for one in _axes(axis, x.ndim):
        x = x.index_select(one, arange(x.shape[one] - 1, -1, -1).to(device=x.device))
    return x


def roll(x, /, shift, *, axis=None):
    """Moved along axes; what falls out comes in at the other end."""
    if axis is None:
        return roll(x.reshape([-1]), shift, axis=0).reshape(list(x.shape))
    shifts = shift if isinstance(shift, (tuple, list)) else [shift] * (len(axis) if isinstance(axis, (tuple, list)) else 1)
    for by, one in zip(shifts, _axes(axis, x.ndim)):
        if x.shape[one]:
            places = [(i - by) % x.shape[one] for i in range(x.shape[one])]
            x = x.index_select(one, asarray(places, dtype=int64).to(device=x.device))
    return x


def repeat(x, repeats, /, *, axis=None):
    """Each element so many times, one after another; ``repeats`` is a number, or one for each element."""
    if axis is None:
        x, axis = x.reshape([-1]), 0
    count = x.shape[axis]
    times = repeats.tolist() if isinstance(repeats, Tensor) else repeats
    times = [times] * count if isinstance(times, int) else times * count if len(times) == 1 else times
    places = [i for i, n in enumerate(times) for _ in range(n)]
    index = asarray(places, dtype=int64) if places else zeros(0, dtype=int64)
    return x.index_select(axis % x.ndim, index.to(device=x.device))


def tile(x, repetitions, /):
    """Repeated whole, so many times along each axis."""
    rank = builtins.max(x.ndim, len(repetitions))
    x = x.reshape([1] * (rank - x.ndim) + list(x.shape))
    for axis, times in enumerate((1,) * (rank - len(repetitions)) + tuple(repetitions)):
        x = concat([x] * times, axis=axis) if times else x[(slice(None),) * axis + (slice(0, 0),)]
    return x


# Along axes.


def _default_sum(x, dtype):
    if dtype is not None:
        return dtype
    return x.dtype if _is_float(x) else int64


def sum(x, /, *, axis=None, dtype=None, keepdims=False):  # noqa: A001
    """Sums, of whole numbers in int64."""
    x = x.to(_default_sum(x, dtype))
    if x.ndim == 0:
        return x.clone()
    axes = _axes(axis, x.ndim)
    if not axes:
        return x.clone()
    return x.sum(axes, keepdims) if _is_float(x) else _folded(x, axes, keepdims, lambda a, b: a + b, 0)


def _folded(x, axes, keepdims, combine, empty):
    """Along axes, halves combined with halves until one is left: exact for whole numbers, which have no reductions."""
    for axis in axes:
        x = moveaxis(x, axis, 0)
        if x.shape[0] == 0:
            x = full((1, *x.shape[1:]), empty, dtype=x.dtype, device=x.device)
        while x.shape[0] > 1:
            half = x.shape[0] // 2
            rest = x[2 * half :]
            x = combine(x[:half], x[half : 2 * half])
            x = concat([x, rest], axis=0) if rest.shape[0] else x
        x = moveaxis(x, 0, axis)
    return x if keepdims else squeeze(x, tuple(axes))


def mean(x, /, *, axis=None, keepdims=False):
    """Means, of floating dtypes."""
    axes = _axes(axis, x.ndim)
    return x.mean(axes, keepdims) if axes else x.clone()


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variances, of floating dtypes."""
    axes = _axes(axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    if count <= correction:  # as NumPy: nothing is divided by zero or less
        return sum(x, axis=axis, keepdims=keepdims) * nan
    return x.var(axes, correction, keepdims) if axes else x * 0


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviations, of floating dtypes."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _extreme(x, axis, keepdims, function, pick):
    if x.ndim == 0:
        return x.clone()
    axes = _axes(axis, x.ndim)
    if not axes:
        return x.clone()
    if builtins.any(x.shape[a] == 0 for a in axes):
        raise ValueError(f"no largest or smallest of no elements: shape {tuple(x.shape)}, axes {axes}")
    if not _is_float(x):
        return _folded(x, axes, keepdims, pick, 0)
    found = function(x, axes, keepdims)
    return _where(_core.amax((x != x).to(float32), axes, keepdims) != 0, asarray(nan, dtype=x.dtype), found)


def max(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """The largest along axes; NaN where there is one."""
    return _extreme(x, axis, keepdims, _core.amax, lambda a, b: _where(a >= b, a, b))


def min(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """The smallest along axes; NaN where there is one."""
    return _extreme(x, axis, keepdims, _core.amin, lambda a, b: _where(a <= b, a, b))


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many are not zero."""
    return sum((x != 0) if x.dtype != bool else x, axis=axis, dtype=int64, keepdims=keepdims)


def all(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """Whether all are true, or not zero."""
    size = math.prod(x.shape[a] for a in _axes(axis, x.ndim))
    return count_nonzero(x, axis=axis, keepdims=keepdims) == size


def any(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """Whether one is true, or not zero."""
    return count_nonzero(x, axis=axis, keepdims=keepdims) > 0


def argmax(x, /, *, axis=None, keepdims=False):
    """The index of the largest, the first of equals."""
    return _place(x, axis, keepdims, max)


def _place(x, axis, keepdims, extreme):
    if axis is None:
        found = _place(x.reshape([-1]), 0, False, extreme)
        return found.reshape([1] * x.ndim) if keepdims else found
    axis %= x.ndim
    best = extreme(x, axis=axis, keepdims=True)
    return ((x == best) | (x != x)).to(float32).argmax(axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """The index of the smallest, the first of equals."""
    return _place(x, axis, keepdims, min)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours, n times over."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    x = moveaxis(x, axis, -1)
    for _ in range(n):
        x = x[..., 1:] - x[..., :-1]
    return moveaxis(x, -1, axis)
