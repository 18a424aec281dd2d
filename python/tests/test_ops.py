"""Operations: the package has those of the library, and they are NumPy's formulas with gradients that are slopes."""

import re
from pathlib import Path

import numpy as np
import pytest

import ingot

HEADERS = Path(__file__).parents[2] / "src" / "ingot" / "ops"

# What is an operator, a method or another name in Python.
ELSEWHERE = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "neg": "__neg__", "scale": "__mul__", "equal": "__eq__",
    "not_equal": "__ne__", "less": "__lt__", "less_equal": "__le__", "greater": "__gt__", "greater_equal": "__ge__",
    "to": "to", "clone": "clone", "contiguous": "contiguous", "slice": "__getitem__", "max": "amax", "min": "amin",
    "concat": "cat", "gelu_erf": "gelu", "gelu_tanh": "gelu", "attention": "scaled_dot_product_attention",
    "bce_loss": "binary_cross_entropy", "bce_with_logits_loss": "binary_cross_entropy_with_logits",
    "conv1d_packed": "conv1d", "global_avg_pool": "mean",
}
# What is a part of others: layouts that kernels like best, caches of an engine, what nn and autograd are made of.
PARTS = """
affine_add as_matrix attention_qkv attention_sinks blocked_conv2d blocked_conv2d_shape cached_attention checked_heads checkpoint_rows
composed_attention expanded flattened from_channel_blocks fused_linear fused_pointwise gather_within gelu_mlp gradient_of_sinks heads_of
index_select_within linear_inputs linear_operands low_rank moving_average_transposed next_random_key normalize normalize_and_rotate
pack_conv1d_weight pointwise prepack_conv2d_weight prepack_quantized_conv2d_weight prepack_winograd_weight quantized_conv2d random_state
rms_norm_rope rms_norm_rope_qkv rope_in_place rotate scan_operand shrunk_by_sinks split_heads spread_channel_blocks spread_conv2d_weight
squeeze_excite_residual sum_of_groups sum_to_shape swiglu_linear to_channel_blocks weighted_roll_within without_positions add_low_rank
add_low_rank_rows dual_pool_residual
""".split()


def public_operations():
    declared = re.compile(r"^(?:Tensor|TopK|LstmState|NormedSum|RopeTable|ExpertRouting|std::vector<Tensor>|std::array<Tensor, \d>) (\w+)\(", re.MULTILINE)
    return sorted({name for path in HEADERS.glob("*.h") for name in declared.findall(path.read_text(encoding="utf-8"))})


def test_the_headers_are_read():
    assert len(public_operations()) > 120 and {"softmax", "topk", "rope", "split"} <= set(public_operations())


@pytest.mark.parametrize("name", public_operations())
def test_an_operation_of_the_library_is_one_of_the_package(name):
    if name in PARTS:
        assert not hasattr(ingot, name), f"{name} is in the package: take it from the list of parts"
        return
    python = ELSEWHERE.get(name, name)
    assert hasattr(ingot, python) or hasattr(ingot.Tensor, python)


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def tensor(values):
    return ingot.tensor(np.asarray(values, dtype=np.float64))


def windows(x, size, stride):
    return np.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, stride)], -2)


X = array(2, 4, 8)
SPECTRUM = np.fft.rfft(X[0])
PARTS_OF_SPECTRUM = np.stack([SPECTRUM.real, SPECTRUM.imag])

CASES = {
    "pad": (lambda: ingot.pad(tensor(X), [1, 2, 0, 3]), lambda: np.pad(X, ((0, 0), (0, 3), (1, 2)))),
    "pad circular": (lambda: ingot.pad(tensor(X), [1, 2], "circular"), lambda: np.pad(X, ((0, 0), (0, 0), (1, 2)), "wrap")),
    "pad replicate": (lambda: ingot.pad(tensor(X), [1, 2], "replicate"), lambda: np.pad(X, ((0, 0), (0, 0), (1, 2)), "edge")),
    "roll": (lambda: ingot.roll(tensor(X), 3, 1), lambda: np.roll(X, 3, 1)),
    "roll of all": (lambda: ingot.roll(tensor(X), -5), lambda: np.roll(X, -5)),
    "roll of two axes": (lambda: tensor(X).roll(shifts=(1, -2), dims=(0, 2)), lambda: np.roll(X, (1, -2), (0, 2))),
    "select": (lambda: ingot.select(tensor(X), 1, 2), lambda: X[:, 2]),
    "chunk": (lambda: ingot.chunk(tensor(X), 2, 2)[1], lambda: np.split(X, 2, 2)[1]),
    "silu_mul": (lambda: ingot.silu_mul(tensor(X), tensor(X + 1)), lambda: X / (1 + np.exp(-X)) * (X + 1)),
    "max_pool1d": (lambda: ingot.max_pool1d(tensor(X), 3, 2), lambda: windows(X, 3, 2).max(-1)),
    "avg_pool1d": (lambda: ingot.avg_pool1d(tensor(X), 2), lambda: windows(X, 2, 2).mean(-1)),
    "max_pool2d": (lambda: ingot.max_pool2d(tensor(X[None]), (2, 4)), lambda: X.reshape(1, 2, 2, 2, 2, 4).max((3, 5))),
    "avg_pool2d": (lambda: ingot.avg_pool2d(tensor(X[None]), 2), lambda: X.reshape(1, 2, 2, 2, 4, 2).mean((3, 5))),
    "adaptive_avg_pool1d": (lambda: ingot.adaptive_avg_pool1d(tensor(X), 4), lambda: X.reshape(2, 4, 4, 2).mean(-1)),
    "adaptive_avg_pool2d": (lambda: ingot.adaptive_avg_pool2d(tensor(X[None]), (2, 1)), lambda: X.reshape(1, 2, 2, 2, 8).mean((3, 4))[..., None]),
    "conv2d": (
        lambda: ingot.conv2d(tensor(X[None]), tensor(array(3, 2, 1, 1)), stride=(1, 2)),
        lambda: np.einsum("nchw,oc->nohw", X[None], array(3, 2, 1, 1)[:, :, 0, 0])[..., ::2],
    ),
    "conv_transpose1d": (
        lambda: ingot.conv_transpose1d(tensor(X), tensor(array(4, 3, 2)), stride=2),
        lambda: np.einsum("ncw,cok->nowk", X, array(4, 3, 2)).reshape(2, 3, 16),
    ),
    "conv_transpose2d": (
        lambda: ingot.conv_transpose2d(tensor(X[None]), tensor(array(2, 3, 2, 2)), stride=2),
        lambda: np.einsum("nchw,cokl->nohkwl", X[None], array(2, 3, 2, 2)).reshape(1, 3, 8, 16),
    ),
    "rfft": (lambda: ingot.rfft(tensor(X[0])), lambda: PARTS_OF_SPECTRUM),
    "irfft": (lambda: ingot.irfft(tensor(PARTS_OF_SPECTRUM), 8), lambda: X[0]),
    "complex_abs": (lambda: ingot.complex_abs(tensor(PARTS_OF_SPECTRUM)), lambda: np.abs(SPECTRUM)),
    "complex_multiply": (
        lambda: ingot.complex_multiply(tensor(PARTS_OF_SPECTRUM), tensor(PARTS_OF_SPECTRUM), conjugate_b=True)[0],
        lambda: np.abs(SPECTRUM) ** 2,
    ),
    "complex_matmul": (
        lambda: ingot.complex_matmul(tensor(PARTS_OF_SPECTRUM), tensor(PARTS_OF_SPECTRUM.transpose(0, 2, 1)))[1],
        lambda: (SPECTRUM @ SPECTRUM.T).imag,
    ),
    "complex_tanh": (lambda: ingot.complex_tanh(tensor(PARTS_OF_SPECTRUM / 8))[0], lambda: np.tanh(SPECTRUM / 8).real),
    "moving_average": (lambda: ingot.moving_average(tensor(X), 3), lambda: windows(np.pad(X, ((0, 0), (0, 0), (1, 1)), "edge"), 3, 1).mean(-1)),
    "resample": (lambda: ingot.resample(tensor(X), 2, 2, [0, 4, 1, 5], [0.25, 0.25, 0.75, 0.75]), lambda: 0.25 * X[..., [0, 4]] + 0.75 * X[..., [1, 5]]),
    "weighted_roll": (
        lambda: ingot.weighted_roll(tensor(X), ingot.tensor([[1], [3]]), tensor([[2.0], [1.0]])),
        lambda: np.stack([2 * np.roll(X[0], -1, 0), np.roll(X[1], -3, 0)]),
    ),
    "causal_conv": (
        lambda: ingot.causal_conv(tensor(X), tensor(array(8, 2))),
        lambda: array(8, 2)[:, 1] * X + array(8, 2)[:, 0] * np.pad(X, ((0, 0), (1, 0), (0, 0)))[:, :-1],
    ),
    "add_rms_norm": (
        lambda: ingot.add_rms_norm(tensor(X), tensor(X), tensor(np.ones(8)), 1e-6)[1],
        lambda: 2 * X / np.sqrt((4 * X**2).mean(-1, keepdims=True) + 1e-6),
    ),
    "add_layer_norm": (
        lambda: ingot.add_layer_norm(tensor(X), tensor(0 * X), tensor(np.ones(8)), tensor(np.zeros(8)), 1e-6)[1],
        lambda: (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-6),
    ),
    "swiglu": (
        lambda: ingot.swiglu(tensor(X), tensor(array(3, 8)), tensor(array(3, 8, seed=1))),
        lambda: (lambda g: g / (1 + np.exp(-g)))(X @ array(3, 8).T) * (X @ array(3, 8, seed=1).T),
    ),
    "grouped_linear": (
        lambda: ingot.grouped_linear(tensor(X[0]), tensor(array(2, 3, 8)), ingot.tensor([0, 1, 4])),
        lambda: np.concatenate([X[0, :1] @ array(2, 3, 8)[0].T, X[0, 1:] @ array(2, 3, 8)[1].T]),
    ),
    "binary_cross_entropy": (
        lambda: ingot.binary_cross_entropy(tensor([0.25, 0.5]), tensor([1.0, 0.0])),
        lambda: -(np.log(0.25) + np.log(0.5)) / 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_its_formula(name):
    call, formula = CASES[name]
    np.testing.assert_allclose(np.asarray(call()), formula(), rtol=1e-6, atol=1e-8)


def test_recurrences_are_their_loops():
    rng = np.random.default_rng(0)
    x, decay, beta = rng.normal(size=(1, 5, 2, 3)), -rng.random((1, 5, 2)), rng.random((1, 5, 2))
    keys, queries = rng.normal(size=(1, 5, 1, 4)), rng.normal(size=(1, 5, 1, 4))
    scan, delta, states = np.zeros_like(x), np.zeros_like(x), np.zeros((2, 2, 3, 4))
    for t in range(5):
        for h in range(2):
            k, q = keys[0, t, 0], queries[0, t, 0]
            states[0, h] = np.exp(decay[0, t, h]) * states[0, h] + np.outer(x[0, t, h], k)
            scan[0, t, h] = states[0, h] @ q
            kept = np.exp(decay[0, t, h]) * states[1, h]
            states[1, h] = kept + beta[0, t, h] * np.outer(x[0, t, h] - kept @ k, k)
            delta[0, t, h] = states[1, h] @ q
    args = [tensor(a) for a in (x, decay, keys, queries)]
    np.testing.assert_allclose(np.asarray(ingot.selective_scan(*args)), scan, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(ingot.delta_rule(args[0], args[1], tensor(beta), *args[2:])), delta, rtol=1e-6)


def test_an_lstm_cell_is_its_formula():
    gates, c = array(2, 12).astype(np.float32), array(2, 3).astype(np.float32)
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    i, o, f, g = np.split(gates, 4, 1)
    expected = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h, state = ingot.lstm_cell(ingot.tensor(gates), ingot.tensor(c))
    np.testing.assert_allclose(np.asarray(state), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(h), sigmoid(o) * np.tanh(expected), rtol=1e-4, atol=1e-5)


def test_rotary_positions_turn_pairs_and_keep_lengths():
    cos, sin = ingot.rope_table(4, 16)
    x = ingot.randn(1, 3, 2, 4)
    turned = ingot.rope(x, cos, sin, offset=5)
    first, second = x[..., :2], x[..., 2:]
    c, s = cos[5:8].reshape(1, 3, 1, 2), sin[5:8].reshape(1, 3, 1, 2)
    expected = ingot.cat([first * c - second * s, second * c + first * s], -1)
    np.testing.assert_allclose(np.asarray(turned), np.asarray(expected), rtol=1e-5, atol=1e-6)
    by_positions = ingot.rope(x, cos, sin, positions=ingot.tensor([5, 6, 7]))
    np.testing.assert_array_equal(np.asarray(by_positions), np.asarray(turned))


def test_pairs_of_experts_are_sorted():
    offsets, tokens, experts, positions = ingot.route_experts(ingot.tensor([[1, 0], [2, 1]]), 3)
    assert offsets.tolist() == [0, 1, 3, 4] and experts.tolist() == [0, 1, 1, 2] and tokens.tolist() == [0, 0, 1, 1]
    assert sorted(positions.flatten().tolist()) == [0, 1, 2, 3]


def test_whole_numbers_stand_for_what_they_were():
    x, scale, zero = ingot.tensor([[0.5, -1.0], [2.0, 0.0]]), ingot.tensor([0.5]), ingot.tensor([3], dtype="int8")
    codes = ingot.affine_quantize(x, scale, zero, "int8")
    assert codes.tolist() == [[4, 1], [7, 3]]
    assert ingot.affine_dequantize(codes, scale, zero, ingot.float32).tolist() == x.tolist()


def test_a_loss_in_chunks_is_that_of_the_logits():
    x, weight = ingot.randn(6, 4).requires_grad_(), ingot.randn(5, 4).requires_grad_()
    targets = ingot.tensor([0, 1, 4, -100, 2, 3])
    whole = ingot.cross_entropy(ingot.linear(x, weight), targets)
    whole.backward()
    expected = np.asarray(x.grad).copy()
    again = x.detach().requires_grad_()
    chunked = ingot.linear_cross_entropy(again, weight.detach().requires_grad_(), targets)
    chunked.backward()
    assert chunked.item() == pytest.approx(whole.item(), rel=1e-5)
    np.testing.assert_allclose(np.asarray(again.grad), expected, rtol=1e-4, atol=1e-6)


def test_what_is_computed_again_has_the_same_bits():
    layer = ingot.nn.Sequential(ingot.nn.Linear(8, 16), ingot.nn.GELU(), ingot.nn.Dropout(0.5), ingot.nn.Linear(16, 8))
    grads, calls = [], []

    def counted(x):
        calls.append(x.shape)
        return layer(x)

    for run in (layer, lambda x: ingot.checkpoint(counted, x)):
        ingot.manual_seed(3)
        x = ingot.ones(4, 8).requires_grad_()
        run(x).sum().backward()
        grads.append([np.asarray(p.grad).copy() for p in (x, *layer.parameters())])
        for p in layer.parameters():
            p.grad = None
    assert len(calls) == 2
    for plain, recomputed in zip(*grads, strict=True):
        np.testing.assert_array_equal(plain, recomputed)


def test_what_a_recomputed_function_raises_leaves_the_call_and_the_backward_pass():
    times = []

    def fails(x, at):
        times.append(1)
        if len(times) == at:
            raise LookupError("enough")
        return x * 2

    x = ingot.ones(2).requires_grad_()
    with pytest.raises(LookupError):
        ingot.checkpoint(lambda v: fails(v, 1), x)
    y = ingot.checkpoint(lambda v: fails(v, 3), x).sum()
    with pytest.raises(LookupError):
        y.backward()
    with pytest.raises(TypeError, match="return a Tensor"):
        ingot.checkpoint(lambda v: 5, x)
    assert (ingot.ones(2) * 2).sum().item() == 4


def test_chunks_have_pytorchs_sizes():
    def sizes(size, chunks):
        return [part.shape[1] for part in ingot.ones(2, size).chunk(chunks, -1)]

    assert sizes(6, 3) == [2, 2, 2] and sizes(5, 3) == [2, 2, 1] and sizes(6, 4) == [2, 2, 2] and sizes(2, 5) == [1, 1]
    assert sizes(0, 2) == [0, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ingot.pad(x, [1]),
        lambda x: ingot.pad(x, [1, 1], "mirror"),
        lambda x: ingot.chunk(x, 0),
        lambda x: ingot.roll(x, (1, 1)),
        lambda x: ingot.roll(x, (1, 1), 0),
        lambda x: ingot.roll(x, 1, 2),
        lambda x: ingot.select(x, 0, 9),
        lambda x: ingot.conv2d(x, x),
        lambda x: ingot.max_pool2d(x, 0),
        lambda x: ingot.avg_pool1d(x, "a"),
        lambda x: ingot.rfft(x, 5),
        lambda x: ingot.irfft(x, 3),
        lambda x: ingot.complex_matmul(x, x),
        lambda x: ingot.rope(x, x, x),
        lambda x: ingot.selective_scan(x, x, x, x),
        lambda x: ingot.grouped_linear(x, x, x),
        lambda x: ingot.route_experts(x, 4),
        lambda x: ingot.route_experts(ingot.tensor([[0, 4]]), 4),
        lambda x: ingot.route_experts(ingot.tensor([[0, -1]]), 4),
        lambda x: ingot.route_experts(ingot.tensor([0, 1]), 4),
        lambda x: ingot.route_experts(ingot.tensor([[0, 1]]).to("int32"), 4),
        lambda x: ingot.route_experts(ingot.tensor([[0]]), 0),
        lambda x: ingot.lstm_cell(x.to("bfloat16"), ingot.ones(4, 1, dtype="bfloat16")),
        lambda x: ingot.lstm_cell(x, ingot.ones(4, 1, dtype="float16")),
        lambda x: ingot.affine_quantize(x, x, None, "float32"),
        lambda x: ingot.checkpoint(None, x),
        lambda x: ingot.resample(x, 0, 2, [0, 99], [1.0, 1.0]),
    ],
)
def test_what_does_not_fit_is_an_exception(call):
    with pytest.raises((ingot.errors.Error, ValueError, TypeError, IndexError)):
        call(ingot.ones(4, 4))
