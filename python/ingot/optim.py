"""Optimizers of the C++ library with PyTorch's interface: the same steps, bit for bit, as ``ingot train`` takes."""

from . import _core


class Optimizer:
    """Changes parameters by their gradients.

    ``params``: tensors, or dicts ``{"params": [...], "lr": ..., "weight_decay": ...}`` for groups with settings of their own.
    """

    def __init__(self, params, lr, make):
        params = list(params)
        if not params:
            raise ValueError("params is empty: there is nothing to optimize")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.lr_initial = lr
        self._optimizer = make([(list(g["params"]), g.get("lr", lr) / lr, g.get("weight_decay")) for g in groups])

    @property
    def lr(self):
        """The learning rate; groups with one of their own keep their share of it."""
        return self._optimizer.lr

    @lr.setter
    def lr(self, value):
        self._optimizer.lr = value

    def step(self):
        """One step; parameters without a gradient are left alone."""
        self._optimizer.step()

    def zero_grad(self, set_to_none=True):
        """Drops all gradients."""
        self._optimizer.zero_grad()

    def clip_grad_norm(self, max_norm):
        """Scales the gradients so that their common norm is at most ``max_norm``; returns the norm before."""
        return self._optimizer.clip_grad_norm(max_norm)

    def state_dict(self):
        """Everything that the next step depends on, as tensors that share the optimizer's memory."""
        return self._optimizer.state()

    def load_state_dict(self, state):
        """Copies such tensors in."""
        self._optimizer.load_state(state)


class AdamW(Optimizer):
    """Adam with decoupled weight decay. ``bits=8`` keeps its moments in 8 bits, a quarter of the memory."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, bits=32):
        beta1, beta2 = betas
        super().__init__(
            params, lr, lambda groups: _core._adamw(groups, lr, beta1, beta2, eps, weight_decay, True, bits == 8)
        )


class Adam(Optimizer):
    """Adam; weight decay is added to the gradient."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        beta1, beta2 = betas
        super().__init__(
            params, lr, lambda groups: _core._adamw(groups, lr, beta1, beta2, eps, weight_decay, False, False)
        )


class SGD(Optimizer):
    """Stochastic gradient descent with momentum."""

    def __init__(self, params, lr=1e-2, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
        super().__init__(
            params, lr, lambda groups: _core._sgd(groups, lr, momentum, dampening, nesterov, weight_decay)
        )
