#!/usr/bin/env python3
"""Makes tests/models/goldens/<name>/: tiny random models of each decoder family, with what transformers computes.

Each folder holds config.json and model.safetensors as transformers saves them, and expected.safetensors: `tokens` and
`targets` [2, T], `logits` [2, T, vocab], the loss, the gradient of every parameter (`grad.<name>`), and the losses of
ten AdamW steps on the same batch. Mixtures of experts also have router.safetensors: the load-balancing loss, and the
gradients of loss + ROUTER_WEIGHT · that; and bf16.safetensors: tokens, targets, logits, loss and gradients, in f32, of the weights
rounded to bf16, on texts for which every choice of experts is clear: where two are nearly equal, arithmetic in bf16 takes the other
and says nothing of the rest. Sizes are awkward on purpose: odd head counts, widths off the vector lengths.

Run from the repository's root, with tools/goldens/requirements.txt installed; names make only these again:
    python3 tools/goldens/language_models.py [NAME...]
"""
import copy
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers.core_model_loading import revert_weight_conversion

from language_cases import CASES, T, VOCAB

OUT = pathlib.Path("tests/models/goldens")
ROUTER_WEIGHT = 0.5
CLEAR = 0.25  # how far the last expert chosen is above the first that is not, in the router's logits, which spread by about 1


def randomise(model: torch.nn.Module) -> None:
    """Norm weights off one and biases off zero: a mix-up of any of them shows in the logits."""
    for name, p in model.named_parameters():
        if p.dim() == 1:
            # Norms of Gemma, Nemotron and Qwen's hybrids multiply by 1 + weight: either way they are near 1.
            plus_one = model.config.model_type in ("gemma", "gemma2", "gemma3_text") or model.config.model_type == "nemotron" or (
                model.config.model_type.startswith(("qwen3_next", "qwen3_5")) and not name.endswith("linear_attn.norm.weight"))
            around = 1.0 if ("norm" in name or "ln_" in name) and not plus_one else 0.0
            torch.nn.init.normal_(p, mean=around, std=0.2)
            if name.endswith("bias"):
                torch.nn.init.normal_(p, std=0.2)
            if name.endswith(("q_norm.weight", "k_norm.weight")) and model.config.model_type in ("gemma3n_text", "gemma4_text"):
                torch.nn.init.normal_(p, mean=0.25, std=0.1)  # scores are not divided by anything
            if name.endswith("per_expert_scale"):
                torch.nn.init.normal_(p, mean=1.0, std=0.2)
            if name.endswith("router.scale"):  # so that logits spread by about 1
                torch.nn.init.normal_(p, mean=5.0, std=1.0)
        else:
            torch.nn.init.normal_(p, std=0.2)

    for name, buffer in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            torch.nn.init.normal_(buffer, std=0.2)
        if name.endswith("layer_scalar"):
            torch.nn.init.normal_(buffer, mean=1.0, std=0.2)


def named_gradients(model: torch.nn.Module) -> dict:
    """Under the names of the file: transformers stacks experts in memory and not on disk."""
    gradients = {parameter: p.grad.clone() for parameter, p in model.named_parameters() if p.grad is not None}
    return {"grad." + k: v.contiguous() for k, v in revert_weight_conversion(model, gradients).items()}


def make_router(model: torch.nn.Module, tokens: torch.Tensor, loss: torch.Tensor, folder: pathlib.Path) -> None:
    model.zero_grad()
    aux = model(tokens, use_cache=False, output_router_logits=True).aux_loss
    (loss + ROUTER_WEIGHT * aux).backward()
    save_file({"aux_loss": aux.detach().reshape(1), **named_gradients(model)}, folder / "router.safetensors")
    model.zero_grad()


def loss_of(model: torch.nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = model(tokens, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def correction_bias(model: torch.nn.Module, gate: torch.nn.Module) -> torch.Tensor | None:
    """Of the scores that choose: in the router, below it, or in the block around it."""
    blocks = [m for m in model.modules() if any(child is gate for child in m.children())]
    for module in (gate, getattr(gate, "moe_statics", gate), *blocks):
        for name in ("e_score_correction_bias", "expert_bias"):
            if hasattr(module, name):
                return getattr(module, name).reshape(1, -1)
    return None


def gap(x: torch.Tensor, chosen: int) -> torch.Tensor:
    best = x.sort(descending=True).values
    return best[:, chosen - 1] - best[:, chosen]


def sparse_mixer_margin(config, logits: torch.Tensor) -> torch.Tensor:
    """The order of the two that are chosen and the third, and how far any other is from the edge of being near either."""
    best = logits.sort(descending=True).values
    margins = [best[:, 0] - best[:, 1], best[:, 1] - best[:, 2]]
    for value in (best[:, :1], best[:, 1:2]):
        edge = value - 2 * config.router_jitter_noise * torch.maximum(logits.abs(), value)
        margins.append((logits - edge).abs().masked_fill(logits == value, torch.inf).amin(-1))
    return torch.stack(margins).amin(0)


def choice_margin(config, logits: torch.Tensor, bias: torch.Tensor | None, chosen: int) -> torch.Tensor:
    """How far the last that is chosen is above the first that is not, about in units of logits: the slope of sigmoid and of softmax
    is at most 1/4."""
    if config.model_type == "phimoe":
        return sparse_mixer_margin(config, logits)
    groups, kept = getattr(config, "n_group", 1) or 1, getattr(config, "topk_group", 1) or 1
    if bias is None and groups == kept:
        return gap(logits, chosen)
    sigmoid = config.model_type != "ernie4_5_moe"
    ranking = logits if bias is None else (logits.sigmoid() if sigmoid else logits.softmax(-1)) + bias
    if groups == kept:
        return 4 * gap(ranking, chosen)
    judges = 1 if bias is None else 2  # experts by which a group is judged
    grouped = ranking.reshape(len(ranking), groups, -1)
    of_groups = grouped.topk(judges, -1).values.sum(-1)
    outside = of_groups < of_groups.sort(descending=True).values[:, kept - 1, None]
    inside = grouped.masked_fill(outside[..., None], -10.0).reshape(ranking.shape)
    return (1 if bias is None else 4) * torch.minimum(gap(inside, chosen), gap(of_groups, kept) / judges)


def chosen_experts(config) -> int | None:
    return getattr(config, "top_k_experts", None) or getattr(config, "num_experts_per_tok", None)


def router_logits(gate: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    if hasattr(gate, "per_expert_scale"):  # Gemma 4's
        return gate.proj(gate.norm(x) * gate.scale * gate.scalar_root_size)
    weight = gate.wg.weight if hasattr(gate, "wg") else gate.weight
    return torch.nn.functional.linear(x, weight, getattr(gate, "bias", None))


def clear_tokens(model: torch.nn.Module) -> torch.Tensor:
    """[2, T]: each token the first of a random order for which every layer's choice of experts is clear. What follows changes
    nothing before it, so they are found one after another."""
    chosen = chosen_experts(model.config)
    generator = torch.Generator().manual_seed(1)
    margins = []

    def note(gate, inputs, _):
        logits = router_logits(gate, inputs[0])
        logits = logits.reshape(VOCAB, -1, logits.shape[-1])[:, -1]
        margins.append(choice_margin(model.config, logits, correction_bias(model, gate), chosen))

    hooks = [m.register_forward_hook(note) for n, m in model.named_modules() if n.endswith((".mlp.gate", ".mlp.router", ".feed_forward.gate", ".feed_forward.router", ".block_sparse_moe.router", ".mixer.gate")) or hasattr(m, "per_expert_scale")]
    assert hooks
    rows = []
    for _ in range(2):
        row = torch.empty(0, dtype=torch.long)
        for _ in range(T):
            order = torch.randperm(VOCAB, generator=generator)
            margins.clear()
            with torch.no_grad():
                model(torch.cat([row.expand(VOCAB, -1), order[:, None]], 1), use_cache=False)
            clear = torch.stack(margins).amin(0) >= CLEAR
            assert clear.any(), "no token leaves the choice clear"
            row = torch.cat([row, order[clear.float().argmax()][None]])
        rows.append(row)
    for hook in hooks:
        hook.remove()
    return torch.stack(rows)


def make_bf16(model: torch.nn.Module, targets: torch.Tensor, folder: pathlib.Path) -> None:
    model.zero_grad()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16())
    tokens = clear_tokens(model)
    loss = loss_of(model, tokens, targets)
    loss.backward()
    save_file({"tokens": tokens, "targets": targets, "logits": model(tokens, use_cache=False).logits.detach().contiguous(),
               "loss": loss.detach().reshape(1), **named_gradients(model)}, folder / "bf16.safetensors")


def make(name: str, config: transformers.PretrainedConfig) -> None:
    torch.manual_seed(sum(name.encode()))
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa" if config.model_type == "falcon" else "eager",  # its eager adds ALiBi twice
        experts_implementation="eager").float()
    randomise(model)
    folder = OUT / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, VOCAB, (2, T))
    targets = torch.roll(tokens, -1, 1)
    targets[:, -1] = -100
    targets[0, 3] = -100

    model.train(config.model_type != "phimoe")  # whose routers sample in training
    expected = {"tokens": tokens, "targets": targets, "logits": model(tokens, use_cache=False).logits.detach()}
    loss = loss_of(model, tokens, targets)
    loss.backward()
    expected["loss"] = loss.detach().reshape(1)
    expected |= named_gradients(model)
    # With a correction bias transformers counts for this loss what the router would choose without it.
    biased = any("e_score_correction_bias" in k for k in model.state_dict())
    if hasattr(config, "router_aux_loss_coef") and config.model_type != "llama4_text" and getattr(config, "num_local_experts", 1) and not biased:
        make_router(model, tokens, loss_of(model, tokens, targets), folder)
    if chosen_experts(config) and "moe" in getattr(config, "layers_block_type", ["moe"]):  # Nemotron H's default
        make_bf16(copy.deepcopy(model), targets, folder)
    decay = [p for p in model.parameters() if p.dim() > 1 and p.requires_grad]
    rest = [p for p in model.parameters() if p.dim() == 1 and p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(model, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    expected["losses"] = torch.tensor(losses)
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")


for case, cfg in CASES.items():
    if len(sys.argv) == 1 or case in sys.argv[1:]:
        make(case, cfg)
