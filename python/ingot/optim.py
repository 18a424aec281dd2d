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

    def step(self, lr_scale=1.0):
        """One step; parameters without a gradient are left alone. ``lr_scale``: of the learning rate, as a :func:`schedule`
        gives it."""
        self._optimizer.step(lr_scale)

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


class Muon(Optimizer):
    """Muon: matrices step by their momentum made orthogonal, everything else as AdamW does.

    ``embeddings``: those of ``params`` that are embedding tables or heads, which AdamW steps, too. ``match_adamw``: steps as
    large as AdamW's, so that one learning rate does for both. ``normalize_rows``: NorMuon.
    """

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, iterations=5, embeddings=(),
                 match_adamw=True, normalize_rows=False, betas=(0.9, 0.999), eps=1e-8):
        params = list(params)
        tables = {tensor.data_ptr() for tensor in embeddings}
        beta1, beta2 = betas

        def make(groups):
            if len(groups) != 1 or groups[0][1] != 1 or groups[0][2] is not None:
                raise ValueError("Muon takes one group of parameters: one learning rate and weight decay for all")
            tensors = groups[0][0]
            chosen = [tensor.data_ptr() in tables for tensor in tensors]
            return _core._muon(tensors, chosen, lr, weight_decay, momentum, nesterov, iterations, match_adamw, normalize_rows,
                               beta1, beta2, eps)

        super().__init__(params, lr, make)


class EMA:
    """A running average of a module's weights: ``update()`` after every step, ``with ema:`` to use the averages.

    ``average += (1 - decay) * (weight - average)`` in float32; ``warmup`` lets the first weights be forgotten soon.
    """

    def __init__(self, module, decay=0.999, warmup=False):
        self._ema = _core._Ema(dict(module.named_parameters()), decay, warmup)

    def update(self):
        """Takes in the weights as they are now."""
        self._ema.update()

    def __enter__(self):
        if self._ema.swapped():
            raise RuntimeError("the averages stand in the module already")
        self._ema.swap()
        return self

    def __exit__(self, *error):
        self._ema.swap()

    def state_dict(self):
        """The averages and the number of updates, as tensors."""
        return self._ema.state()

    def load_state_dict(self, state):
        """Copies such tensors in."""
        self._ema.load_state(state)


def schedule(type="cosine", total_steps=1, warmup_steps=0, *, final_lr_fraction=0.0, cooldown_steps=0, gamma=0.1, step_size=1,
             num_cycles=1.0, power=1.0, timescale=0):
    """A learning-rate schedule of ``ingot train``: ``f(step)`` is the factor at a step, from 0 on, for ``step(lr_scale=...)``.

    ``type``: constant, linear, cosine, cosine_with_restarts, polynomial, inverse_sqrt, exponential, step or wsd. The other
    arguments are the keys of a training configuration.
    """
    return _core._schedule(type, total_steps, warmup_steps, final_lr_fraction, cooldown_steps, gamma, step_size, num_cycles, power, timescale)
