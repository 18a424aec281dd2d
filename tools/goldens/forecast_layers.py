"""Records what single layers of a PyTorch network read and write, and their own gradients; forecast_models.py uses it.

Of the layer L, by the name that ours has: L.x0, L.x1, ... what it read (each tensor once, in the order of its arguments,
those that it ignores left out), L.y0, ... what it wrote, L.dy0, ... gradients drawn at random, and for sum(y0 dy0) + ...
L.dx0, ... (where what it read has a gradient) and L.grad.NAME of its parameters. A layer that is called several times
is recorded the first time, or `calls` times with the call's number before x, y, dy and dx.

Layouts are made ours: "channels" [B, steps, channels] becomes [B, channels, steps] and back, where it has three axes;
"patches" [B, channels, width, patches] becomes [B, channels, patches, width];
"heads" [B, steps, heads, width] becomes [B, steps, heads * width]; "misread" [B, heads, width, steps] is read
as [B, steps, heads * width], as the published FEDformer does.
"""
import torch

LAYOUTS = {
    "": lambda t: t,
    "channels": lambda t: t.transpose(1, 2),
    "heads": lambda t: t.flatten(2),
    "patches": lambda t: t.transpose(2, 3),
    "misread": lambda t: t.reshape(t.shape[0], t.shape[3], -1),
}


class Call:
    def __init__(self, layer, reads, writes, options):
        self.layer = layer
        self.reads = list({id(t): t for t in reads if torch.is_tensor(t)}.values())
        writes = writes if isinstance(writes, (tuple, list)) else [writes]
        self.writes = [t for t in writes if torch.is_tensor(t)][:options.get("results")]
        generator = torch.Generator().manual_seed(self.writes[0].numel())
        # As large as makes gradients of weights, which are sums over all vectors of a result, about 1.
        self.upstream = [torch.randn(t.shape, generator=generator) / (t.numel() / t.shape[-1]) ** 0.5 for t in self.writes]
        self.layouts = LAYOUTS[options.get("reads", "")], LAYOUTS[options.get("writes", "")]
        self.all_alike = options.get("reads") == "heads"  # else only the first tensor has the layout

    def gradients(self, tensors):
        return torch.autograd.grad(self.writes, tensors, self.upstream, retain_graph=True, allow_unused=True) if tensors else ()

    def tensors(self):
        wanted = [t for t in self.reads if t.requires_grad]
        gradients = dict(zip(map(id, wanted), self.gradients(wanted)))
        found = {}
        used = [t for t in self.reads if not t.requires_grad or gradients[id(t)] is not None]
        for i, t in enumerate(used):
            layout = self.layouts[0] if i == 0 or self.all_alike else LAYOUTS[""]
            found[f"x{i}"] = layout(t)
            if t.requires_grad:
                found[f"dx{i}"] = layout(gradients[id(t)])
        for i, (y, dy) in enumerate(zip(self.writes, self.upstream)):
            found |= {f"y{i}": self.layouts[1](y), f"dy{i}": self.layouts[1](dy)}
        return found

    def parameter_gradients(self):
        named = {n: p for n, p in self.layer.named_parameters() if p.requires_grad}
        return {name: g for name, g in zip(named, self.gradients(list(named.values()))) if g is not None}


class Recorder:
    """Listens to `layers` of `model`: {name: {"reads": layout, "writes": layout, "calls": n, "results": how many count}}."""

    def __init__(self, model, layers):
        self.layers, self.calls = layers, {name: [] for name in layers}
        self.hooks = [model.get_submodule(name).register_forward_hook(self.hook(name)) for name in layers]

    def hook(self, name):
        def record(layer, reads, writes):
            if len(self.calls[name]) < self.layers[name].get("calls", 1):
                self.calls[name].append(Call(layer, reads, writes, self.layers[name]))
        return record

    def tensors(self, rename, real):
        """What was recorded; `rename` makes a parameter's name ours, `real` makes a complex tensor ours."""
        for hook in self.hooks:
            hook.remove()
        found = {}
        for name, options in self.layers.items():
            ours = rename(name + ".")
            for number, call in enumerate(self.calls[name]):
                at = ours + (f"{number}." if options.get("calls", 1) > 1 else "")
                found |= {at + key: t for key, t in call.tensors().items()}
                for parameter, gradient in call.parameter_gradients().items():
                    found[ours + "grad." + rename(f"{name}.{parameter}").removeprefix(ours)] = real(gradient)
        return {name: tensor.detach().clone().contiguous() for name, tensor in found.items()}
