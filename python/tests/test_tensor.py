"""Tensors against NumPy."""

import gc
from pathlib import Path

import numpy as np
import pytest

import ingot

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def random_array(rng, shape, dtype="float32"):
    return (rng.normal(size=shape) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_come_and_go_unchanged(dtype):
    array = random_array(np.random.default_rng(1), (3, 4), dtype)
    x = ingot.tensor(array)
    assert x.shape == (3, 4) and str(x.numpy().dtype) == dtype
    np.testing.assert_array_equal(x.numpy(), array)
    assert x.tolist() == array.tolist()


def test_dlpack_and_buffers_share_memory_both_ways():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = ingot.from_dlpack(array)
    assert x.data_ptr() == array.ctypes.data
    for back in (np.asarray(x), np.from_dlpack(x), x.numpy()):
        assert back.ctypes.data == array.ctypes.data
    x.fill_(7)
    assert (array == 7).all()
    assert ingot.from_dlpack(array.T).stride() == (1, 4)


def test_memory_outlives_the_array_that_owned_it():
    x = ingot.from_dlpack(np.full((1000,), 3.0, np.float32))
    view = np.asarray(ingot.tensor([1.0, 2.0, 3.0]))
    gc.collect()
    np.random.default_rng(0).normal(size=1000)
    assert x.sum().item() == 3000 and view.tolist() == [1, 2, 3]


def test_torch_shares_memory():
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    x = ingot.from_dlpack(t)
    assert x.data_ptr() == t.data_ptr() and x.dtype == ingot.bfloat16
    y = ingot.ones(3)
    shared = torch.from_dlpack(y)
    assert shared.data_ptr() == y.data_ptr() and shared.tolist() == [1, 1, 1]


def test_read_only_arrays_are_copied_and_never_written_to():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    ingot.asarray(array).fill_(5)
    assert array.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1, 3), slice(None, None, 2), slice(5, 2), (0, 1), (slice(None), -1), (..., 0), (None, 1), (0, ..., None),
     (slice(1, None), 2, slice(0, 2)), [0, 2, 2], slice(None, None, -1), (0, slice(3, None, -2), slice(None, None, -1))],
)
def test_indexing_is_numpys(index):
    array = random_array(np.random.default_rng(2), (4, 3, 5))
    np.testing.assert_array_equal(ingot.tensor(array)[index].numpy(), array[index])


def test_assignment_is_numpys():
    array = random_array(np.random.default_rng(3), (4, 3))
    x = ingot.tensor(array)
    x[1] = 5.0
    x[:, 2] = ingot.tensor([1.0, 2.0, 3.0, 4.0])
    x[2:, :2] = ingot.tensor([9.0, 8.0])
    array[1] = 5
    array[:, 2] = [1, 2, 3, 4]
    array[2:, :2] = [9, 8]
    np.testing.assert_array_equal(x.numpy(), array)


def test_index_tensors_select_rows():
    array = random_array(np.random.default_rng(4), (5, 2))
    rows = np.array([[0, 4], [1, 1]])
    np.testing.assert_array_equal(ingot.tensor(array)[ingot.tensor(rows)].numpy(), array[rows])


@pytest.mark.parametrize("index", [7, -8, (0, 0, 0), "a", 1.5, slice(None, None, 0)])
def test_an_index_that_cannot_be_is_an_index_error(index):
    with pytest.raises((IndexError, ValueError)):
        ingot.ones(4, 3)[index]


def test_arithmetic_broadcasts_as_numpy_does():
    rng = np.random.default_rng(5)
    for left, right in [((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((1,), (5, 2))]:
        a, b = random_array(rng, left), random_array(rng, right)
        x, y = ingot.tensor(a), ingot.tensor(b)
        for op in ("__add__", "__sub__", "__mul__", "__truediv__"):
            np.testing.assert_allclose(getattr(x, op)(y).numpy(), getattr(a, op)(b), rtol=1e-6)
        np.testing.assert_array_equal((x > y).numpy(), a > b)
    a = random_array(rng, (3,))
    x = ingot.tensor(a)
    for mine, numpys in [(2 - x, 2 - a), (2 / x, 2 / a), (x * 3, a * 3), (x**2, a**2), (-x, -a), (abs(x), abs(a))]:
        np.testing.assert_allclose(mine.numpy(), numpys, rtol=1e-6)


def test_whole_numbers_stay_whole():
    x = ingot.arange(4)
    assert (1 - x).tolist() == [1, 0, -1, -2] and (x * 2).dtype == ingot.int64
    assert (x == 2).tolist() == [False, False, True, False] and (x > 1.5).tolist() == [False, False, True, True]
    with pytest.raises(TypeError, match="float"):
        x + 0.5


def test_reductions_are_numpys():
    array = random_array(np.random.default_rng(6), (3, 4, 5))
    x = ingot.tensor(array)
    for dim in (None, 0, -1, (0, 2)):
        for name, other in [("sum", "sum"), ("mean", "mean"), ("amax", "max"), ("amin", "min")]:
            expected = getattr(array, other)(axis=dim)
            np.testing.assert_allclose(np.asarray(getattr(x, name)(dim)), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.asarray(x.var(dim)), array.var(axis=dim, ddof=1), rtol=1e-5)
    assert x.argmax().item() == array.argmax()
    values, places = x.max(1)
    np.testing.assert_array_equal(places.numpy(), array.argmax(1))
    np.testing.assert_array_equal(values.numpy(), array.max(1))


def test_shapes_change_as_pytorchs():
    x = ingot.arange(24)
    assert x.reshape(2, -1).shape == x.view((2, 12)).shape == (2, 12)
    y = x.reshape(2, 3, 4)
    assert y.permute(2, 0, 1).shape == (4, 2, 3) and y.transpose(0, 2).shape == (4, 3, 2) and y.flatten(1).shape == (2, 12)
    assert y[0].T.tolist() == y[0].numpy().T.tolist()
    assert [part.shape[2] for part in y.split(3, 2)] == [3, 1]
    assert ingot.cat([y, y], 1).shape == (2, 6, 4) and ingot.stack([y, y]).shape == (2, 2, 3, 4)
    assert ingot.ones(3, 1).expand(-1, 5).shape == (3, 5)


def test_matmul_and_attention_are_what_their_formulas_say():
    rng = np.random.default_rng(7)
    a, b = random_array(rng, (2, 3, 4)), random_array(rng, (4, 5))
    np.testing.assert_allclose((ingot.tensor(a) @ ingot.tensor(b)).numpy(), a @ b, rtol=1e-5, atol=1e-5)
    q, k, v = (random_array(rng, (1, 6, 2, 8)) for _ in range(3))
    got = ingot.scaled_dot_product_attention(*map(ingot.tensor, (q, k, v)), is_causal=True).numpy()
    scores = np.einsum("bshd,bthd->bhst", q, k) / np.sqrt(8)
    scores = np.where(np.tril(np.ones((6, 6), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(got, np.einsum("bhst,bthd->bshd", weights, v), rtol=1e-4, atol=1e-5)


def test_equal_seeds_draw_equal_numbers():
    ingot.manual_seed(3)
    first = ingot.randn(100)
    ingot.manual_seed(3)
    assert first.tolist() == ingot.randn(100).tolist()
    assert abs(ingot.rand(10000).mean().item() - 0.5) < 0.02


def test_weights_are_saved_and_opened(tmp_path):
    tensors = {"a": ingot.randn(3, 2), "b": ingot.arange(5)}
    ingot.save(tensors, tmp_path / "w.safetensors", {"note": "x"})
    weights = ingot.open(tmp_path / "w.safetensors")
    assert sorted(weights.keys()) == ["a", "b"] and "a" in weights and weights.metadata["note"] == "x"
    assert weights["b"].tolist() == [0, 1, 2, 3, 4] and weights.info("a")["shape"] == (3, 2)
    assert ingot.load(tmp_path / "w.safetensors")["a"].tolist() == tensors["a"].tolist()
    with pytest.raises(ingot.errors.Error, match="'a'"):
        weights["aa"]


@pytest.mark.parametrize("name", ["w.safetensors", "w.gguf", "w.npz"])
def test_weights_are_written_in_the_format_of_the_files_name(name, tmp_path):
    tensors = {"a": ingot.randn(3, 32), "b": ingot.ones(5, dtype="float16")}
    ingot.save(tensors, tmp_path / name)
    again = ingot.load(tmp_path / name)
    assert ingot.open(tmp_path / name).format == name.split(".")[1]
    assert {key: (value.dtype, value.tolist()) for key, value in again.items()} == {key: (value.dtype, value.tolist()) for key, value in tensors.items()}


def test_torch_opens_state_dicts_that_are_written(tmp_path):
    tied = ingot.randn(40, 8)
    tensors = {"a": tied, "b": tied, "half": ingot.ones(5, dtype="bfloat16"), "ids": ingot.arange(4), "none": ingot.zeros(0, 3)}
    ingot.save(tensors, tmp_path / "w.pt")
    again = ingot.load(tmp_path / "w.pt")
    assert {key: (value.dtype, value.tolist()) for key, value in again.items()} == {key: (value.dtype, value.tolist()) for key, value in tensors.items()}
    torch = pytest.importorskip("torch")
    for mmap in (False, True):
        state = torch.load(tmp_path / "w.pt", weights_only=True, mmap=mmap)
        assert {key: value.tolist() for key, value in state.items()} == {key: value.tolist() for key, value in tensors.items()}
        assert state["half"].dtype == torch.bfloat16 and state["ids"].dtype == torch.int64
        assert state["a"].untyped_storage().data_ptr() == state["b"].untyped_storage().data_ptr()


def test_converted_state_dicts_keep_their_ties(tmp_path):
    torch = pytest.importorskip("torch")
    tied, square = torch.randn(40, 8), torch.randn(6, 6)
    state = {"embed": tied, "head": tied, "other": tied.clone(), "square": square, "turned": square.t()}
    torch.save(state, tmp_path / "a.pt")
    for dtype in ("", "bf16"):
        ingot.convert(tmp_path / "a.pt", tmp_path / "b.pt", dtype=dtype)
        again = torch.load(tmp_path / "b.pt", weights_only=True)
        for key, value in state.items():
            assert torch.equal(again[key], value.to(again[key].dtype)), key
        place = {key: value.untyped_storage().data_ptr() for key, value in again.items()}
        assert place["head"] == place["embed"] != place["other"]


ROOT = Path(__file__).parents[2]
FILES = "aligned.gguf split-00001-of-00003.gguf no_metadata.safetensors checkpoint.pt legacy.pt arrays.npz compressed.npz f4.npy keras2.h5 model.keras bundle.index"


@pytest.mark.parametrize("path", [*(f"tests/weights/goldens/{name}" for name in FILES.split()), "examples/data/mlp.onnx"])
def test_weights_of_every_format_are_loaded(path, tmp_path):
    source = ingot.open(ROOT / path)
    weights = {name: source[name] for name in source.keys() if source.info(name)["dtype"] is not None}  # not texts of TensorFlow
    assert weights and (len(weights) < len(source) or set(ingot.load(ROOT / path)) == set(weights))
    plain = {name: value.float() for name, value in weights.items() if value.ndim > 0}
    ingot.save(plain, tmp_path / "again.npz")
    again = np.load(tmp_path / "again.npz")
    for name, value in plain.items():
        np.testing.assert_array_equal(again[name], np.asarray(value))


@pytest.mark.parametrize("numbers", [(0,), (7,), (2, 9, 3), (5, -6, -4), (3, 3), (5, 1), (0, 1, 0.125), (1.5, -2, -0.25), (-(2**63), 2**63 - 1, 2**62)], ids=str)
def test_arange_and_linspace_count_as_numpys_do(numbers):
    wanted = np.arange(*numbers)
    made = ingot.arange(*numbers)
    assert made.dtype == (ingot.int64 if wanted.dtype == np.int64 else ingot.float32)
    np.testing.assert_array_equal(made.numpy(), wanted.astype(made.numpy().dtype))
    assert ingot.arange(*numbers, dtype="float16").dtype == ingot.float16
    first, last = float(numbers[0]), float(numbers[-1])
    np.testing.assert_allclose(ingot.linspace(first, last, 7).numpy(), np.linspace(first, last, 7), rtol=1e-6)
    assert ingot.linspace(first, last, 0).shape == (0,) and ingot.linspace(first, last, 1).tolist() == [pytest.approx(first)]


def test_numpys_files_and_ours_are_the_same(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    ingot.save({"a": ingot.tensor(values)}, tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), values)
    ingot.save({"a": ingot.tensor(values), "b": ingot.ones(2)}, tmp_path / "ab.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "ab.npz")["a"], values)


@pytest.mark.parametrize(
    ("name", "tensors", "metadata", "message"),
    [
        ("w.pth", {}, None, "no format that is written"),
        ("w.npy", {"a": 1, "b": 2}, None, "holds one"),
        ("w.npz", {"a": 1}, {"note": "x"}, "leave it out"),
        ("w.pt", {"a": 1}, {"note": "x"}, "leave it out"),
    ],
)
def test_what_a_format_cannot_hold_is_told_and_nothing_is_written(name, tensors, metadata, message, tmp_path):
    with pytest.raises(ingot.errors.InvalidConfig, match=message):
        ingot.save({key: ingot.ones(2) for key in tensors}, tmp_path / name, metadata)
    assert not list(tmp_path.iterdir())


def test_printing_is_short_and_round_trips_small_values():
    assert repr(ingot.tensor([1.5, 2])) == "tensor([1.5, 2])"
    assert "..." in repr(ingot.zeros(1000, 1000)) and len(repr(ingot.zeros(1000, 1000))) < 1000


def test_indices_count_from_the_end_in_lists_and_tensors_as_in_numpy():
    x = ingot.tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    for rows in ([-1, 0, -4], [[-1], [2]]):
        np.testing.assert_array_equal(np.asarray(x[ingot.tensor(rows)]), np.asarray(x)[np.array(rows)])
    np.testing.assert_array_equal(np.asarray(x[[-2, 1]]), np.asarray(x)[[-2, 1]])
    with pytest.raises(ingot.errors.DimensionMismatch, match="-1"):
        x[[-5]]


def test_a_whole_number_without_axes_is_an_index_and_an_exact_int():
    big = ingot.tensor(2**53 + 1)
    assert int(big) == 2**53 + 1 and "abc"[ingot.tensor(1)] == "b" and range(9)[ingot.tensor(-1)] == 8
    for wrong in (ingot.tensor(1.0), ingot.tensor([1])):
        with pytest.raises(TypeError, match="index"):
            "abc"[wrong]
