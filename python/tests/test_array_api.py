"""ingot.array_api has the standard's names with NumPy's meaning. The standard's own suite: tools/check_array_api.py."""

import numpy as np
import pytest

import ingot
import ingot.array_api as xp

rng = np.random.default_rng(0)
FLOATS = rng.normal(size=(3, 4)).astype(np.float32)
WHOLE = rng.integers(-9, 9, size=(3, 4)).astype(np.int32)


def test_a_tensor_names_its_namespace():
    x = ingot.ones(2, 3)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2023.12") is xp
    assert xp.__array_api_version__ == "2024.12" and x.mT.shape == (3, 2) and x.to_device("cpu").data_ptr() == x.data_ptr()
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="2031.12")
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == xp.float32 and "cpu" in info.devices()
    assert set(info.dtypes(kind="integral")) == {"int8", "int16", "int32", "int64", "uint8"}


@pytest.mark.parametrize(
    "name",
    "abs negative positive floor ceil round trunc sign isnan isinf isfinite square".split(),
)
@pytest.mark.parametrize("x", [FLOATS, WHOLE], ids=["float", "int"])
def test_functions_of_one_array(name, x):
    if name == "square" and x is WHOLE:
        pytest.skip("square takes floating dtypes")
    found = np.asarray(getattr(xp, name)(xp.asarray(x)))
    wanted = getattr(np, name)(x)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", "add subtract multiply maximum minimum equal not_equal less less_equal greater greater_equal".split())
@pytest.mark.parametrize("types", [("int8", "int32"), ("uint8", "int16"), ("uint8", "int8"), ("float32", "float64"), ("int64", "int64")])
def test_two_dtypes_of_a_kind_meet_in_the_wider(name, types):
    a, b = WHOLE[:1].astype(types[0]), WHOLE.astype(types[1])
    found, wanted = np.asarray(getattr(xp, name)(xp.asarray(a), xp.asarray(b))), getattr(np, name)(a, b)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_kinds_do_not_mix():
    with pytest.raises(TypeError):
        xp.add(xp.ones(2), xp.ones(2, dtype=xp.int64))
    with pytest.raises(TypeError):
        xp.result_type(xp.bool, xp.float32)
    assert xp.result_type(xp.uint8, xp.int8) == xp.int16 and xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.sum(x, axis=(0, 1)),
        lambda m, x: m.sum(x, axis=1, keepdims=True),
        lambda m, x: m.mean(x, axis=0),
        lambda m, x: m.var(x, axis=1, correction=1) if m is xp else np.var(x, axis=1, ddof=1),
        lambda m, x: m.std(x),
        lambda m, x: m.max(x, axis=1),
        lambda m, x: m.min(x),
        lambda m, x: m.argmax(x, axis=0),
        lambda m, x: m.argmin(x, axis=1),
        lambda m, x: m.all(x > 0, axis=1),
        lambda m, x: m.any(x > 1, axis=0),
        lambda m, x: m.count_nonzero(x > 0),
        lambda m, x: m.matmul(x, x.T),
        lambda m, x: m.tensordot(x, x, axes=((0, 1), (0, 1))),
        lambda m, x: m.permute_dims(x, (1, 0)) if m is xp else np.transpose(x, (1, 0)),
        lambda m, x: m.flip(x, axis=1),
        lambda m, x: m.roll(x, (1, -1), axis=(0, 1)),
        lambda m, x: m.tile(x, (2, 1)),
        lambda m, x: m.repeat(x, 2, axis=1),
        lambda m, x: m.concat([x, x], axis=1) if m is xp else np.concatenate([x, x], axis=1),
        lambda m, x: m.stack([x, x], axis=1),
        lambda m, x: m.expand_dims(x, axis=1),
        lambda m, x: m.moveaxis(x, 0, 1),
        lambda m, x: m.tril(x, k=1),
        lambda m, x: m.triu(x, k=-1),
        lambda m, x: m.take(x, m.asarray([2, 0, -1]), axis=1),
        lambda m, x: m.diff(x, axis=1, n=2),
        lambda m, x: m.clip(x, -0.5, 0.5),
        lambda m, x: m.logaddexp(x, -x),
        lambda m, x: x[::-1, ::2],
        lambda m, x: x[..., None, -1],
    ],
)
def test_results_are_numpys(call):
    found, wanted = np.asarray(call(xp, xp.asarray(FLOATS))), call(np, FLOATS)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_creation():
    np.testing.assert_array_equal(np.asarray(xp.arange(7, 0, -2)), np.arange(7, 0, -2))
    np.testing.assert_allclose(np.asarray(xp.linspace(0, 1, 5, endpoint=False)), np.linspace(0, 1, 5, endpoint=False), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(xp.eye(3, 4, k=1)), np.eye(3, 4, k=1))
    for found, wanted in zip(xp.meshgrid(xp.arange(2), xp.arange(3)), np.meshgrid(np.arange(2), np.arange(3)), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)
    assert xp.full((), 2**60 + 1, dtype=xp.int64).item() == 2**60 + 1
    x = xp.ones(3)
    assert xp.asarray(x, copy=True).data_ptr() != x.data_ptr() and xp.asarray(x, copy=False).data_ptr() == x.data_ptr()
    with pytest.raises(ValueError):
        xp.asarray([1, 2], copy=False)


def test_nan_comes_through():
    x = xp.asarray([1.0, float("nan"), 3.0])
    assert np.isnan([xp.max(x).item(), xp.min(x).item(), xp.sum(x).item()]).all()
    assert np.asarray(xp.isnan(xp.maximum(x, xp.zeros(3)))).tolist() == [False, True, False]

