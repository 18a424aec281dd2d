"""Muon, averages of weights, schedules, and modules that are one operation each."""

import numpy as np
import pytest

import ingot
from ingot import nn, optim


def test_muon_steps_matrices_by_something_orthogonal_and_the_rest_as_adamw():
    ingot.manual_seed(1)
    matrix, bias = ingot.randn(8, 16).requires_grad_(), ingot.randn(16).requires_grad_()
    before, other = np.asarray(matrix.detach()).copy(), np.asarray(bias.detach()).copy()
    optimizer = optim.Muon([matrix, bias], lr=0.1, weight_decay=0.0, match_adamw=False)
    ((matrix.sum(0) + bias) ** 2 + matrix.square().sum()).sum().backward()
    optimizer.step()
    step = (np.asarray(matrix.detach()) - before) / 0.1
    singular = np.linalg.svd(step)[1]
    assert 0.3 < singular.min() and singular.max() < 2
    np.testing.assert_allclose(np.abs(np.asarray(bias.detach()) - other), 0.1, rtol=1e-3)


def test_muon_leaves_embeddings_to_adamw_and_takes_one_group():
    table = ingot.randn(4, 3).requires_grad_()
    before = np.asarray(table.detach()).copy()
    optimizer = optim.Muon([table], lr=0.1, weight_decay=0.0, embeddings=[table])
    (table * 3).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(before - np.asarray(table.detach()), 0.1, rtol=1e-3)
    with pytest.raises(ValueError, match="one group"):
        optim.Muon([{"params": [table], "lr": 0.5}], lr=0.1)


def test_averages_follow_the_weights_and_stand_in_for_them_for_a_while():
    layer = nn.Linear(2, 2, bias=False)
    ema = optim.EMA(layer, decay=0.75)
    with ingot.no_grad():
        first = np.asarray(layer.weight.detach()).copy()
        layer.weight.add_(ingot.ones(2, 2))
    ema.update()
    with ema:
        np.testing.assert_allclose(np.asarray(layer.weight.detach()), first + 0.25, rtol=1e-6)
        with pytest.raises(RuntimeError):
            ema.__enter__()
    np.testing.assert_allclose(np.asarray(layer.weight.detach()), first + 1, rtol=1e-6)
    again = optim.EMA(layer, decay=0.75)
    again.load_state_dict(ema.state_dict())
    with again:
        np.testing.assert_allclose(np.asarray(layer.weight.detach()), first + 0.25, rtol=1e-6)


def test_a_schedule_is_a_factor_of_the_learning_rate():
    factor = optim.schedule("cosine", total_steps=110, warmup_steps=10, final_lr_fraction=0.1)
    assert factor(0) == 0 and factor(5) == pytest.approx(0.5) and factor(10) == 1 and factor(110) == pytest.approx(0.1)
    assert factor(60) == pytest.approx(0.55)
    weight = ingot.ones(3).requires_grad_()
    optimizer = optim.SGD([weight], lr=1.0)
    weight.sum().backward()
    optimizer.step(lr_scale=0.25)
    assert weight.tolist() == [0.75, 0.75, 0.75]
    with pytest.raises(ingot.errors.InvalidConfig, match="cosin"):
        optim.schedule("cosin")


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (nn.ConvTranspose1d(4, 6, 3, stride=2), (2, 4, 5), (2, 6, 11)),
        (nn.ConvTranspose2d(4, 6, (2, 3), stride=2, padding=1, output_padding=1), (2, 4, 5, 5), (2, 6, 9, 10)),
        (nn.Conv2d(4, 6, 3, stride=(1, 2), padding=1), (2, 4, 5, 6), (2, 6, 5, 3)),
        (nn.MaxPool1d(2), (2, 4, 6), (2, 4, 3)),
        (nn.AvgPool1d(2, stride=1), (2, 4, 6), (2, 4, 5)),
        (nn.MaxPool2d((2, 3)), (2, 4, 6, 6), (2, 4, 3, 2)),
        (nn.AdaptiveAvgPool1d(3), (2, 4, 6), (2, 4, 3)),
        (nn.AdaptiveAvgPool2d(1), (2, 4, 6, 6), (2, 4, 1, 1)),
        (nn.LeakyReLU(0.1), (2, 3), (2, 3)),
        (nn.ELU(), (2, 3), (2, 3)),
        (nn.SwiGLU(8, 12), (2, 3, 8), (2, 3, 8)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_a_module_has_the_shape_of_its_formula_and_gradients(module, shape, expected):
    x = ingot.randn(*shape).requires_grad_()
    y = module(x)
    assert tuple(y.shape) == expected
    y.sum().backward()
    assert all(p.grad is not None for p in (x, *module.parameters()))


def test_losses_are_modules_with_a_reduction():
    a, b = ingot.tensor([0.2, 0.9]), ingot.tensor([0.0, 1.0])
    assert nn.L1Loss("sum")(a, b).item() == pytest.approx(0.3)
    assert nn.MSELoss("none")(a, b).tolist() == pytest.approx([0.04, 0.01])
    assert nn.BCELoss()(a, b).item() == pytest.approx(-(np.log(0.8) + np.log(0.9)) / 2)
    assert nn.BCEWithLogitsLoss()(ingot.zeros(2), b).item() == pytest.approx(np.log(2))
    assert nn.HuberLoss(delta=0.1)(ingot.tensor([1.0]), ingot.tensor([0.0])).item() == pytest.approx(0.1 * 0.95)
