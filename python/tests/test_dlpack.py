"""DLPack as its specification and the array API standard have it: the same memory on both sides, for every shape and stride."""

import ctypes
import gc

import numpy as np
import pytest

import ingot

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (1, 1), (4, 5), (2, 3, 4)])
def test_every_dtype_and_shape_is_shared(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    tensor = ingot.from_dlpack(array)
    assert tensor.shape == shape and tensor.data_ptr() == array.ctypes.data or array.size == 0
    back = np.from_dlpack(tensor)
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype and (back.ctypes.data == array.ctypes.data or array.size == 0)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[1:],
        lambda x: x[:, ::2],
        lambda x: x[1::2, 1:4],
        lambda x: x[2],
        lambda x: x[:, 3],
        lambda x: x[None],
        lambda x: x[2:2],
    ],
)
def test_views_keep_their_strides_and_offsets(view):
    array = np.arange(30, dtype=np.float32).reshape(5, 6)
    seen = ingot.from_dlpack(view(array))
    np.testing.assert_array_equal(np.asarray(seen), view(array))
    out = np.from_dlpack(view(ingot.from_dlpack(array)))
    np.testing.assert_array_equal(out, view(array))
    if out.size:
        array += 100
        np.testing.assert_array_equal(out, view(array))
        np.testing.assert_array_equal(np.asarray(seen), view(array))


def test_the_protocols_arguments_mean_what_they_say():
    x = ingot.ones(3)
    cpu = x.__dlpack_device__()
    assert cpu == (1, 0)

    class Seen:
        def __init__(self, **options):
            self.options = options

        def __dlpack__(self, **ignored):
            return x.__dlpack__(**self.options)

    def pointer(**options):
        return ingot.from_dlpack(Seen(**options)).data_ptr()

    assert pointer() == pointer(copy=False) == pointer(max_version=(1, 0)) == pointer(dl_device=cpu) == x.data_ptr()
    assert pointer(copy=True) != x.data_ptr()
    for options in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": (2, 0), "copy": False}):
        with pytest.raises(BufferError):
            x.__dlpack__(**options)
    with pytest.raises(TypeError):
        x.__dlpack__(nothing=1)
    with pytest.raises(TypeError):
        x.__dlpack__(1)


def test_a_graph_does_not_leave_with_the_memory():
    x = ingot.ones(3).requires_grad_()
    shared = ingot.from_dlpack(x)
    assert not shared.requires_grad and shared.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("steps", [1, 3])
def test_memory_lives_as_long_as_anybody_holds_it(steps):
    values = np.arange(1000, dtype=np.float64)
    held = values.copy()
    for _ in range(steps):
        held = ingot.from_dlpack(held)
    held = np.from_dlpack(held)
    gc.collect()
    junk = [np.full(1000, 7.0) for _ in range(50)]
    np.testing.assert_array_equal(held, values)
    assert len(junk) == 50


@pytest.mark.parametrize(
    "bad",
    [
        lambda: ingot.from_dlpack(object()),
        lambda: ingot.from_dlpack(np.ones(2, np.complex64)),
        lambda: ingot.from_dlpack(np.ones(2, np.uint32)),
        lambda: ingot.from_dlpack(np.array(["a"])),
        lambda: ingot.from_dlpack(np.ones((1,) * 9)),
        lambda: ingot.from_dlpack(type("Broken", (), {"__dlpack__": lambda self: 5})()),
        lambda: ingot.from_dlpack(type("Raises", (), {"__dlpack__": lambda self: 1 / 0})()),
    ],
)
def test_what_cannot_be_shared_is_an_exception(bad):
    with pytest.raises((ValueError, TypeError, BufferError, ZeroDivisionError, ingot.errors.Error)):
        bad()


def test_read_only_memory_is_copied_by_asarray_and_refused_by_from_dlpack():
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.raises(BufferError):
        ingot.from_dlpack(array)
    copy = ingot.asarray(array)
    copy += ingot.ones(3, dtype="float64")
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_jax_shares_memory_both_ways():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_platforms", "cpu")
    given = jax.numpy.arange(64, dtype=jax.numpy.float32).reshape(8, 8)
    tensor = ingot.from_dlpack(given)
    assert tensor.data_ptr() == given.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.asarray(tensor), np.asarray(given))
    aligned = ingot.ones(64, 64)
    taken = jax.dlpack.from_dlpack(aligned)
    assert taken.unsafe_buffer_pointer() == aligned.data_ptr()


def test_cupy_shares_memory_both_ways():
    cupy = pytest.importorskip("cupy")
    try:
        aligned = ingot.ones(64, 64, device="cuda")
    except (ingot.errors.Error, ValueError) as missing:
        pytest.skip(f"no GPU for both: {missing}")
    taken = cupy.from_dlpack(aligned)
    assert taken.data.ptr == aligned.data_ptr()
    given = cupy.arange(64, dtype=cupy.float32).reshape(8, 8)
    assert ingot.from_dlpack(given).data_ptr() == given.data.ptr


class Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int)]
    _fields_ += [("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p)]
    _fields_ += [("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS = 0x8, 0x18, 0x38, 0x58, 0x98


@pytest.mark.parametrize(
    ("view", "given"),
    [
        (lambda x: x, [0, ND, STRIDES, C_CONTIGUOUS, ANY_CONTIGUOUS]),
        (lambda x: x.T, [STRIDES, F_CONTIGUOUS, ANY_CONTIGUOUS]),
        (lambda x: x[:, ::2], [STRIDES]),
        (lambda x: x[0], [0, ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS]),
        (lambda x: x[:, 2], [STRIDES]),
    ],
    ids=["rows", "transposed", "every second", "a row", "a column"],
)
def test_a_buffer_lies_as_its_consumer_asks_or_is_refused(view, given):
    tensor, buffer = view(ingot.arange(30).reshape(5, 6)), Buffer()
    for flags in (0, ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS):
        def ask(flags=flags):
            ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(tensor), ctypes.byref(buffer), flags)

        if flags not in given:
            with pytest.raises(BufferError, match="contiguous"):
                ask()
            continue
        ask()
        assert buffer.buf == tensor.data_ptr() and buffer.len == 8 * tensor.numel()
        assert (buffer.shape is not None, buffer.strides is not None) == (flags & ND == ND, flags & STRIDES == STRIDES)
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
