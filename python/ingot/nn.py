"""Layers as PyTorch has them: :class:`Module` with parameters by name, and the usual building blocks.

Parameters are tensors that require a gradient; optimizers of :mod:`ingot.optim` take ``module.parameters()``.
"""

import math

from . import _core
from ._core import Tensor
from .display import module_html
from ._tensor import no_grad, ones, rand, randn, zeros


def parameter(x):
    """``x`` as a leaf that requires a gradient."""
    return x.detach().requires_grad_()


class Module:
    """Something with parameters. Attributes that are tensors requiring a gradient, modules, or lists of modules are found
    by name, in the order in which they were set."""

    training = True

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def _repr_html_(self):
        return module_html(self, type(self).__name__)

    def children(self):
        """(name, module) of the parts of this module."""
        for name, value in self.__dict__.items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple)):
                for i, item in enumerate(value):
                    if isinstance(item, Module):
                        yield f"{name}.{i}", item

    def _tensors(self, prefix, wanted):
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and wanted(value):
                yield prefix + name, value
        for name, child in self.children():
            yield from child._tensors(f"{prefix}{name}.", wanted)

    def named_parameters(self):
        """(name, tensor) of every parameter; one that two modules share comes once."""
        seen = set()
        for name, value in self._tensors("", lambda x: x.requires_grad):
            if value.data_ptr() not in seen:
                seen.add(value.data_ptr())
                yield name, value

    def parameters(self):
        """Every parameter once."""
        return [value for _, value in self.named_parameters()]

    def state_dict(self):
        """Parameters and buffers by name, sharing their memory."""
        return dict(self._tensors("", lambda x: True))

    def load_state_dict(self, state):
        """Copies values in. KeyError or ShapeMismatch names what does not fit; nothing is changed then."""
        own = self.state_dict()
        missing, unexpected = own.keys() - state.keys(), state.keys() - own.keys()
        if missing or unexpected:
            raise KeyError(f"missing: {sorted(missing)}; unexpected: {sorted(unexpected)}")
        for name, value in own.items():
            if state[name].shape != value.shape:
                raise ValueError(f"{name}: expected shape {value.shape}, found {state[name].shape}")
        with no_grad():
            for name, value in own.items():
                value.detach().copy_(state[name].to(value.dtype).to(device=value.device))
        return self

    def train(self, mode=True):
        """Training mode: dropout drops, batch norm uses the batch."""
        self.training = mode
        for _, child in self.children():
            child.train(mode)
        return self

    def eval(self):
        """Inference mode."""
        return self.train(False)

    def to(self, *args, **kwargs):
        """Moves or converts every tensor; call it before an optimizer is made."""
        for name, value in list(self.__dict__.items()):
            if isinstance(value, Tensor):
                moved = value.detach().to(*args, **kwargs)
                setattr(self, name, moved.requires_grad_() if value.requires_grad else moved)
        for _, child in self.children():
            child.to(*args, **kwargs)
        return self

    def __repr__(self):
        inner = "".join(f"\n  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.children())
        return f"{type(self).__name__}({self._describe()}{inner}{chr(10) if inner else ''})"

    def _describe(self) -> str:
        return ""


def _uniform(bound, *shape):
    return parameter(rand(*shape) * (2 * bound) - bound)


class Linear(Module):
    """``x @ weight.T + bias``: [..., in] -> [..., out]. Initialized as PyTorch's."""

    def __init__(self, in_features, out_features, bias=True):
        bound = 1 / math.sqrt(in_features)
        self.weight = _uniform(bound, out_features, in_features)
        self.bias = _uniform(bound, out_features) if bias else None

    def forward(self, x):
        return _core.linear(x, self.weight, self.bias)

    def _describe(self):
        return f"{self.weight.shape[1]} -> {self.weight.shape[0]}"


class Embedding(Module):
    """Rows of a table: ids [...] -> [..., width]."""

    def __init__(self, num_embeddings, embedding_dim):
        self.weight = parameter(randn(num_embeddings, embedding_dim))

    def forward(self, ids):
        return _core.embedding(ids, self.weight)


class LayerNorm(Module):
    """Layer normalization over the last axis."""

    def __init__(self, width, eps=1e-5):
        self.weight, self.bias, self.eps = parameter(ones(width)), parameter(zeros(width)), eps

    def forward(self, x):
        return _core.layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Root-mean-square normalization over the last axis."""

    def __init__(self, width, eps=1e-5):
        self.weight, self.eps = parameter(ones(width)), eps

    def forward(self, x):
        return _core.rms_norm(x, self.weight, self.eps)


class GroupNorm(Module):
    """Group normalization of [N, C, ...]."""

    def __init__(self, num_groups, num_channels, eps=1e-5):
        self.num_groups, self.eps = num_groups, eps
        self.weight, self.bias = parameter(ones(num_channels)), parameter(zeros(num_channels))

    def forward(self, x):
        return _core.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class BatchNorm(Module):
    """Batch normalization of [N, C, ...], with running statistics for inference."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = parameter(ones(num_features)), parameter(zeros(num_features))
        self.running_mean, self.running_var = zeros(num_features), ones(num_features)

    def forward(self, x):
        return _core.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )


def _pair(value):
    return [value, value] if isinstance(value, int) else list(value)


class Conv1d(Module):
    """Convolution of [N, C, W]."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        bound = 1 / math.sqrt(in_channels // groups * kernel_size)
        self.weight = _uniform(bound, out_channels, in_channels // groups, kernel_size)
        self.bias = _uniform(bound, out_channels) if bias else None
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def forward(self, x):
        return _core.conv1d(x, self.weight, self.bias, **self.options)


class Conv2d(Module):
    """Convolution of [N, C, H, W]; sizes are one number or (height, width)."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        height, width = _pair(kernel_size)
        bound = 1 / math.sqrt(in_channels // groups * height * width)
        self.weight = _uniform(bound, out_channels, in_channels // groups, height, width)
        self.bias = _uniform(bound, out_channels) if bias else None
        self.options = (_pair(stride), _pair(padding), _pair(dilation), groups)

    def forward(self, x):
        return _core.conv2d(x, self.weight, self.bias, *self.options)


class ConvTranspose1d(Module):
    """Transposed convolution of [N, C, W]."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1):
        bound = 1 / math.sqrt(out_channels // groups * kernel_size)
        self.weight = _uniform(bound, in_channels, out_channels // groups, kernel_size)
        self.bias = _uniform(bound, out_channels) if bias else None
        self.options = (stride, padding, output_padding, groups, dilation)

    def forward(self, x):
        return _core.conv_transpose1d(x, self.weight, self.bias, *self.options)


class ConvTranspose2d(Module):
    """Transposed convolution of [N, C, H, W]; sizes are one number or (height, width)."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1):
        height, width = _pair(kernel_size)
        bound = 1 / math.sqrt(out_channels // groups * height * width)
        self.weight = _uniform(bound, in_channels, out_channels // groups, height, width)
        self.bias = _uniform(bound, out_channels) if bias else None
        self.options = (_pair(stride), _pair(padding), _pair(output_padding), groups, _pair(dilation))

    def forward(self, x):
        return _core.conv_transpose2d(x, self.weight, self.bias, *self.options)


class MaxPool1d(Module):
    """Largest value of each window of [N, C, W]."""

    def __init__(self, kernel_size, stride=None, padding=0):
        self.options = (kernel_size, stride, padding)

    def forward(self, x):
        return _core.max_pool1d(x, *self.options)


class AvgPool1d(MaxPool1d):
    """Mean of each window of [N, C, W]."""

    def forward(self, x):
        return _core.avg_pool1d(x, *self.options)


class AdaptiveAvgPool1d(Module):
    """Means of so many windows that cover [N, C, W] evenly."""

    def __init__(self, output_size):
        self.output_size = output_size

    def forward(self, x):
        return _core.adaptive_avg_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(AdaptiveAvgPool1d):
    """Means of windows that cover [N, C, H, W] evenly; the size is one number or (height, width)."""

    def forward(self, x):
        return _core.adaptive_avg_pool2d(x, self.output_size)


class MaxPool2d(Module):
    """Largest value of each window of [N, C, H, W]."""

    def __init__(self, kernel_size, stride=None, padding=0):
        self.options = (_pair(kernel_size), _pair(stride or kernel_size), _pair(padding))

    def forward(self, x):
        return _core.max_pool2d(x, *self.options)


class AvgPool2d(MaxPool2d):
    """Mean of each window of [N, C, H, W]."""

    def forward(self, x):
        return _core.avg_pool2d(x, *self.options)


class Dropout(Module):
    """Zeroes elements with probability p while training."""

    def __init__(self, p=0.5):
        self.p = p

    def forward(self, x):
        return _core.dropout(x, self.p) if self.training and self.p > 0 else x


class Flatten(Module):
    """[N, ...] -> [N, rest]."""

    def forward(self, x):
        return x.flatten(1)


class Sequential(Module):
    """Modules one after another."""

    def __init__(self, *modules):
        self.modules = list(modules)

    def children(self):
        return ((str(i), module) for i, module in enumerate(self.modules))

    def forward(self, x):
        for module in self.modules:
            x = module(x)
        return x

    def __getitem__(self, i):
        return self.modules[i]

    def __len__(self):
        return len(self.modules)


class ModuleList(Sequential):
    """A list of modules whose parameters are found."""

    def append(self, module):
        """Adds a module at the end."""
        self.modules.append(module)
        return self

    def forward(self, *args):  # pyright: ignore[reportIncompatibleMethodOverride]
        raise NotImplementedError("a ModuleList is a list: call its modules")


def _activation(name, function):
    return type(name, (Module,), {"forward": lambda self, x: function(x), "__doc__": f"{name} of each element."})


ReLU = _activation("ReLU", _core.relu)
SiLU = _activation("SiLU", _core.silu)
GELU = _activation("GELU", _core.gelu)
Mish = _activation("Mish", _core.mish)
Tanh = _activation("Tanh", _core.tanh)
Sigmoid = _activation("Sigmoid", _core.sigmoid)
Softplus = _activation("Softplus", _core.softplus)


class LeakyReLU(Module):
    """x, below 0 times ``negative_slope``."""

    def __init__(self, negative_slope=0.01):
        self.negative_slope = negative_slope

    def forward(self, x):
        return _core.leaky_relu(x, self.negative_slope)


class ELU(Module):
    """x, below 0 ``alpha`` · (eˣ - 1)."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def forward(self, x):
        return _core.elu(x, self.alpha)


class SwiGLU(Module):
    """The gated feed-forward block of Llama, ``down(silu(gate(x)) · up(x))``: [..., width] -> [..., width]."""

    def __init__(self, width, hidden):
        self.gate, self.up, self.down = Linear(width, hidden, False), Linear(width, hidden, False), Linear(hidden, width, False)

    def forward(self, x):
        return self.down(_core.swiglu(x, self.gate.weight, self.up.weight))


class CrossEntropyLoss(Module):
    """Cross-entropy of logits [..., classes] with targets [...]."""

    def __init__(self, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
        self.options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": reduction}

    def forward(self, logits, targets):
        return _core.cross_entropy(logits, targets, **self.options)


class _PairLoss(Module):
    _loss = staticmethod(_core.mse_loss)

    def __init__(self, reduction="mean"):
        self.reduction = reduction

    def forward(self, input, target):
        return self._loss(input, target, self.reduction)


class MSELoss(_PairLoss):
    """Squared differences: their mean, sum, or (``reduction="none"``) each."""


class L1Loss(_PairLoss):
    """Absolute differences."""

    _loss = staticmethod(_core.l1_loss)


class BCELoss(_PairLoss):
    """Binary cross-entropy of probabilities."""

    _loss = staticmethod(_core.binary_cross_entropy)


class BCEWithLogitsLoss(_PairLoss):
    """Binary cross-entropy of logits."""

    _loss = staticmethod(_core.binary_cross_entropy_with_logits)


class HuberLoss(_PairLoss):
    """Half the squared difference up to ``delta``, beyond it ``delta`` · (|difference| - delta / 2)."""

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input, target):
        return _core.huber_loss(input, target, self.reduction, self.delta)
