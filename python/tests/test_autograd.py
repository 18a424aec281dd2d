"""Gradients against finite differences, optimizers against their formulas, training against exact repetition."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot import nn, optim


def numeric_gradient(function, array, step=1e-5):
    gradient = np.zeros_like(array)
    for place in np.ndindex(*array.shape):
        for sign in (1, -1):
            moved = array.copy()
            moved[place] += sign * step
            gradient[place] += sign * function(ingot.tensor(moved)).item() / (2 * step)
    return gradient


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((x @ x.T).tanh() * 0.5).sum(),
        lambda x: ingot.cross_entropy(x * 2, ingot.tensor([1, 0, 2])),
        lambda x: (ingot.layer_norm(x) ** 2 * ingot.arange(12, dtype="float64").reshape(3, 4)).mean(),
        lambda x: x[1:, ::2].exp().sum() + x.amax(),
        lambda x: ingot.cat([x, x * x], 1).logsumexp(-1).sum(),
        lambda x: x.reshape(2, 6).softmax(-1)[0, 1] + x.permute(1, 0)[2].var(),
    ],
)
def test_gradients_are_the_slopes(function):
    array = np.random.default_rng(1).normal(size=(3, 4))
    x = ingot.tensor(array, requires_grad=True)
    function(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), numeric_gradient(function, array), rtol=1e-5, atol=1e-7)


def test_nothing_is_recorded_under_no_grad():
    x = ingot.ones(2).requires_grad_()
    with ingot.no_grad():
        assert not (x * 2).requires_grad
        with ingot.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad
    assert not ingot.no_grad()(lambda: x * 2)().requires_grad


def test_a_tensor_that_a_graph_needs_is_not_overwritten_silently():
    x = ingot.ones(2).requires_grad_()
    with pytest.raises(TypeError, match="no_grad"):
        x[0] = 3.0
    y = x * 1
    z = y * y
    with ingot.no_grad():
        y.detach().fill_(9)
    with pytest.raises(ingot.errors.Error):
        z.sum().backward()


def test_adamw_takes_the_steps_of_its_formula():
    rng = np.random.default_rng(2)
    w = rng.normal(size=5).astype(np.float32)
    p = ingot.tensor(w).requires_grad_()
    optimizer = optim.AdamW([p], lr=0.1, weight_decay=0.05)
    m, v = np.zeros(5), np.zeros(5)
    w = w.astype(np.float64)
    for t in range(1, 11):
        optimizer.zero_grad()
        ((p - 1) ** 2).sum().backward()
        g = 2 * (w - 1)
        optimizer.step()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w * (1 - 0.1 * 0.05) - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(p.numpy(), w, rtol=1e-5, atol=1e-6)


def test_groups_have_rates_of_their_own():
    a, b = ingot.ones(2).requires_grad_(), ingot.ones(2).requires_grad_()
    optimizer = optim.SGD([{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.1)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    np.testing.assert_allclose(a.numpy(), [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), [0.9, 0.9], rtol=1e-6)


def make_model():
    ingot.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))


def fit(model, optimizer, steps):
    rng = np.random.default_rng(3)
    losses = []
    for _ in range(steps):
        x = ingot.tensor(rng.normal(size=(8, 1, 6, 6)).astype(np.float32))
        y = (x.reshape(8, 36).mean(1) > 0).long()
        loss = ingot.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.clip_grad_norm(1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_model_learns_and_repeats_itself_bit_for_bit():
    runs = []
    for _ in range(2):
        model = make_model()
        runs.append(fit(model, optim.AdamW(model.parameters(), lr=1e-2), 40))
    assert runs[0] == runs[1]
    assert np.mean(runs[0][-5:]) < 0.8 * np.mean(runs[0][:5])


def bits(*tensors):
    return [f"{word:08x}" for tensor in tensors for word in np.asarray(tensor.detach()).reshape(-1).view(np.uint32)]


def test_gradients_and_ten_steps_have_the_bits_of_the_program_in_cpp():
    program = Path(ingot.__file__).parents[1] / "ten_steps"
    if not program.exists():
        pytest.skip(f"{program} is not built: ./dev python builds it")

    def counted(*shape):
        return ingot.tensor((np.arange(np.prod(shape)) * 7 % 11 - 5).astype(np.float32) / 8).reshape(*shape)

    x, targets = counted(8, 6), ingot.tensor([0, 1, 2, 3, 4, 3, 2, 1])
    weights = [counted(*shape).requires_grad_() for shape in ((16, 6), (16,), (16,), (16,), (5, 16))]
    up, bias, scale, shift, down = weights
    optimizer = optim.AdamW(weights, lr=0.02)
    lines = []
    for _ in range(10):
        hidden = ingot.layer_norm(ingot.gelu(ingot.linear(x, up, bias)), scale, shift)
        loss = ingot.cross_entropy(ingot.linear(hidden, down), targets)
        loss.backward()
        line = bits(loss, *(weight.grad for weight in weights))
        optimizer.step()
        optimizer.zero_grad()
        lines.append(line + bits(*weights))
    told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert [line.split() for line in told.splitlines()] == lines and len(set(map(tuple, lines))) == 10


def test_saved_training_goes_on_with_the_same_bits(tmp_path):
    model = make_model()
    optimizer = optim.AdamW(model.parameters())
    fit(model, optimizer, 3)
    ingot.save(model.state_dict(), tmp_path / "model.safetensors")
    ingot.save(optimizer.state_dict(), tmp_path / "optimizer.safetensors")
    expected = fit(model, optimizer, 3)
    other = make_model().load_state_dict(ingot.load(tmp_path / "model.safetensors"))
    again = optim.AdamW(other.parameters())
    again.load_state_dict(ingot.load(tmp_path / "optimizer.safetensors"))
    assert fit(other, again, 3) == expected


def test_modules_find_their_parameters_by_name():
    class Block(nn.Module):
        def __init__(self):
            self.norm = nn.LayerNorm(4)
            self.layers = [nn.Linear(4, 4), nn.Linear(4, 2, bias=False)]

        def forward(self, x):
            return self.layers[1](self.layers[0](self.norm(x)))

    block = Block()
    assert list(dict(block.named_parameters())) == [
        "norm.weight", "norm.bias", "layers.0.weight", "layers.0.bias", "layers.1.weight"]
    assert block(ingot.ones(3, 4)).shape == (3, 2)
    with pytest.raises(KeyError, match="norm.bias"):
        block.load_state_dict({name: x for name, x in block.state_dict().items() if name != "norm.bias"})
    assert "Linear(4 -> 2)" in repr(block)


def test_dropout_and_batch_norm_change_with_the_mode():
    drop, norm = nn.Dropout(0.5), nn.BatchNorm(3)
    x = ingot.randn(64, 3)
    assert (drop(x) == 0).float().mean().item() > 0.2 and drop.eval()(x).tolist() == x.tolist()
    norm(x * 5 + 2)
    assert norm.running_mean.tolist() != [0, 0, 0]
    kept = norm.running_mean.tolist()
    norm.eval()(x)
    assert norm.running_mean.tolist() == kept
