#!/usr/bin/env python3
"""Writes tests/models/goldens/forecast/*.safetensors: outputs and gradients of the reference implementations of
forecasting networks, with the random weights and inputs that made them.

The reference implementations are not part of this project; give the folders of their checkouts:

  tools/goldens/forecast_models.py --tslib Time-Series-Library --patchtst PatchTST/PatchTST_supervised --fedformer FEDformer \
      --transformers

made with thuml/Time-Series-Library 4e938a1, yuqinie98/PatchTST 204c21e, MAZiqing/FEDformer c0f6b97 and the versions in
requirements.txt; FEDformer also wants einops, scipy and sympy. Options that are left out leave their files alone.

A file holds: x [B, channels, lookback], marks [B, lookback, features] and future_marks [B, horizon, features] where the
network reads them, y (evaluation mode), y_training (training mode without dropout), dy, param.NAME, and grad.NAME of
sum(y_training * dy). The metadata's "config" is what Ingot's configuration has to be. Buffers have no gradient. Complex
weights [..., modes] stand as [2, modes, ...], real parts first.

NAME_layers.safetensors holds what single layers of that network read and wrote in training mode, as forecast_layers.py
says; their weights are those of NAME.safetensors.
"""
import argparse
import importlib
import json
import pathlib
import sys
import types

import torch
from forecast_layers import Recorder
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "models" / "goldens" / "forecast"
BATCH, CHANNELS, LOOKBACK, HORIZON, FEATURES = 3, 4, 30, 7, 4
RANDOM_MODES = ([0, 2, 8, 11, 13], [2, 5, 7, 8, 10], [2, 3, 4, 6, 10], [2, 3, 6, 7, 14])
PLAIN = {}  # a layer whose tensors are laid out as ours
DERIVED = ("pe", "ec_s", "ec_d", "rc_e", "rc_o")  # buffers that follow from the configuration


def forget_modules():
    """Repositories share the package names `models`, `layers` and `utils`, and import what these networks never use."""
    for name in [n for n in sys.modules if n.split(".")[0] in ("models", "layers", "utils")]:
        del sys.modules[name]
    for name in ("reformer_pytorch", "matplotlib", "matplotlib.pyplot"):
        unused = types.ModuleType(name)
        unused.LSHSelfAttention = None
        sys.modules.setdefault(name, unused)


def original(folder, module, prepare=None, **settings):
    """Model(settings) of a repository, whose modules `prepare` may import and change before."""
    forget_modules()
    sys.path.insert(0, str(folder))
    try:
        if prepare:
            prepare()
        model = importlib.import_module(f"models.{module}").Model
    finally:
        sys.path.pop(0)
    settings = dict(task_name="long_term_forecast", seq_len=LOOKBACK, label_len=0, pred_len=HORIZON, enc_in=CHANNELS,
                    c_out=CHANNELS, dropout=0.0, moving_avg=5, embed="timeF", freq="h", factor=1, activation="gelu",
                    individual=False) | settings
    return model(types.SimpleNamespace(**settings))


def randomize(model, generator, constants=()):
    """Weights away from their initial values, so that a bias or a norm that is left out shows."""
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if name in constants:
                continue
            if tensor.is_complex():  # so large that the output depends on them
                size = 64 if "cross" in name else 1
                tensor.copy_(size * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype))
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator) * 0.1
            tensor.copy_(tensor + noise if not name.endswith("running_var") else tensor + noise.abs())
            if "cross_attention.query_projection" in name or "cross_attention.key_projection" in name:
                tensor.mul_(0.03)  # near the poles of FEDformer's tanh no two programs agree


def real(tensor):
    """A complex tensor [..., modes] as [2, modes, ...]."""
    if not tensor.is_complex():
        return tensor
    parts = torch.view_as_real(tensor)
    return parts.permute(-1, -2, *range(parts.dim() - 2))


def write(name, model, call, config, rename=lambda n: n, marks=False, constants=(), decodes=False,
          layers=None, input_gradient=True):
    """`layers`: {module: how its tensors are laid out}, see forecast_layers.py; `input_gradient`: with that of x in them,
    which networks that scale their input in place do not allow."""
    generator = torch.Generator().manual_seed(1)
    randomize(model, generator, constants)
    x = torch.randn(BATCH, LOOKBACK, CHANNELS, generator=generator) * 2 + 1
    mark = torch.rand(BATCH, LOOKBACK, FEATURES, generator=generator) - 0.5
    past = mark
    if decodes:
        mark = torch.cat([past, torch.rand(BATCH, HORIZON, FEATURES, generator=generator) - 0.5], 1)
    model.eval()
    parameters = {rename(n): real(t.detach().clone()) for n, t in model.state_dict().items()
                  if (t.is_floating_point() or t.is_complex()) and n not in constants}
    with torch.no_grad():
        y = call(model, x, mark)
    model.train()
    recorder = Recorder(model, layers or {})
    y_training = call(model, x.requires_grad_(bool(layers) and input_gradient), mark)
    dy = torch.randn(y.shape, generator=generator)
    within = recorder.tensors(rename, real)  # asks for gradients of single layers: before the whole graph is used up
    (y_training * dy).sum().backward()
    x = x.detach()
    tensors = {"x": x.transpose(1, 2), "y": y.transpose(1, 2), "y_training": y_training.detach().transpose(1, 2),
               "dy": dy.transpose(1, 2)}
    if marks:
        tensors["marks"] = past
    if decodes:
        tensors["future_marks"] = mark[:, LOOKBACK:]
    tensors |= {"param." + n: t for n, t in parameters.items()}
    tensors |= {"grad." + rename(n): real(p.grad) for n, p in model.named_parameters()
                if p.grad is not None and n not in constants}
    config = dict(lookback=LOOKBACK, horizon=HORIZON, channels=CHANNELS, dropout=0.0) | config
    save_file({n: t.contiguous() for n, t in tensors.items()}, OUT / f"{name}.safetensors",
              metadata={"config": json.dumps(config)})
    if within:
        save_file(within, OUT / f"{name}_layers.safetensors")


def official_patchtst(name):
    """The published code's names as transformers'."""
    for old, new in (("model.backbone.W_pos", "model.encoder.positional_encoder.position_enc"),
                     ("model.backbone.W_P.", "model.encoder.embedder.input_embedding."),
                     ("model.backbone.encoder.", "model.encoder."), ("model.head.linear.", "head.projection."),
                     (".W_Q.", ".q_proj."), (".W_K.", ".k_proj."), (".W_V.", ".v_proj."), (".to_out.0.", ".out_proj."),
                     (".norm_attn.1.", ".norm_sublayer1.batchnorm."), (".norm_ffn.1.", ".norm_sublayer3.batchnorm.")):
        name = name.replace(old, new)
    return name


def linear_models(patchtst):
    plain = lambda model, x, mark: model(x)
    write("dlinear", original(patchtst, "DLinear"), plain, {"model": "dlinear", "moving_average": 25},
          layers={"decompsition": PLAIN})
    # The published code fixes the window at 25.
    individual = original(patchtst, "DLinear", individual=True)
    write("dlinear_individual", individual, plain, {"model": "dlinear", "moving_average": 25, "individual": True})
    write("nlinear", original(patchtst, "NLinear"), plain, {"model": "nlinear"})


def patchtst_official(patchtst):
    model = original(patchtst, "PatchTST", e_layers=2, n_heads=2, d_model=8, d_ff=12, fc_dropout=0.0, head_dropout=0.0,
                     patch_len=6, stride=4, padding_patch="end", revin=True, affine=False, subtract_last=False,
                     decomposition=False, kernel_size=25)
    config = {"model": "patchtst", "layers": 2, "heads": 2, "d_model": 8, "d_ff": 12, "patch_length": 6,
              "patch_stride": 4, "positional_dropout": 0.0, "projection_dropout": 0.0}
    scale = [n for n in model.state_dict() if n.endswith("sdp_attn.scale")]
    layers = {"model.revin_layer": dict(calls=2, reads="channels", writes="channels"), "model.backbone.W_P": PLAIN,
              "model.backbone.encoder.layers.0": dict(results=1), "model.backbone.encoder": PLAIN, "model.head": dict(reads="patches")}
    write("patchtst_official", model, lambda m, x, mark: m(x), config, official_patchtst, constants=scale, layers=layers)


def itransformer(tslib):
    model = original(tslib, "iTransformer", e_layers=2, n_heads=2, d_model=8, d_ff=12)
    config = {"model": "itransformer", "layers": 2, "heads": 2, "d_model": 8, "d_ff": 12, "attention_dropout": 0.0,
              "time_features": FEATURES}
    layers = {"enc_embedding": dict(reads="channels"), "encoder.attn_layers.0": PLAIN, "encoder.attn_layers.1": PLAIN}
    write("itransformer", model, lambda m, x, mark: m(x, mark, None, None), config, marks=True, layers=layers,
          input_gradient=False)


def times_net(tslib):
    """Periods are chosen for a whole batch: outside training, of one window, as the published evaluation had it."""
    def call(model, x, mark):
        forecast = lambda x, mark: model(x, mark, None, None)
        if model.training:
            return forecast(x, mark)
        return torch.cat([forecast(x[i:i + 1], mark[i:i + 1]) for i in range(len(x))])

    model = original(tslib, "TimesNet", e_layers=2, d_model=8, d_ff=12, top_k=3, num_kernels=4)
    config = {"model": "timesnet", "layers": 2, "d_model": 8, "d_ff": 12, "top_k": 3, "kernels": 4,
              "time_features": FEATURES}
    layers = {"enc_embedding": dict(reads="channels"), "model.0": PLAIN, "model.1": PLAIN, "model.0.conv.0": PLAIN}
    write("timesnet", model, call, config, marks=True, constants=["enc_embedding.position_embedding.pe"], layers=layers,
          input_gradient=False)


def decode(model, x, mark):
    """A network with a decoder, which starts from the last half of the look-back."""
    start = LOOKBACK // 2
    return model(x, mark[:, :LOOKBACK], torch.zeros(BATCH, start + HORIZON, CHANNELS), mark[:, LOOKBACK - start:])


def without_state(model):
    """Names in a state dict that are not parameters of Ingot's: constants, and what is there twice or unused."""
    return [n for n in model.state_dict()
            if n.split(".")[-1] in DERIVED or "inner_correlation" in n and ".0." not in n.split("inner_correlation")[0]
            or "cross_attention.inner_correlation.T0" in n]


def decomposition_layers(mixer, cross):
    encoder, decoder = "encoder.attn_layers.0", "decoder.layers.0"
    return {"decomp": PLAIN, "enc_embedding": dict(reads="channels"), encoder: PLAIN, f"{encoder}.attention": PLAIN,
            f"{encoder}.attention.inner_correlation": mixer, "encoder.norm": PLAIN, decoder: PLAIN,
            f"{decoder}.cross_attention": PLAIN, f"{decoder}.cross_attention.inner_correlation": cross,
            f"{decoder}.projection": dict(reads="channels", writes="channels")}


def autoformer(tslib):
    sizes = dict(e_layers=2, d_layers=2, n_heads=2, d_model=16, d_ff=24, factor=2)
    model = original(tslib, "Autoformer", label_len=LOOKBACK // 2, dec_in=CHANNELS, output_attention=False, **sizes)
    config = {"model": "autoformer", "layers": 2, "decoder_layers": 2, "heads": 2, "d_model": 16, "d_ff": 24, "factor": 2,
              "moving_average": 5, "time_features": FEATURES}
    layers = decomposition_layers(dict(reads="heads", writes="heads"), dict(reads="heads", writes="heads"))
    write("autoformer", model, decode, config, marks=True, decodes=True, constants=without_state(model), layers=layers)


def wavelet_sizes(order, modes, channels):
    """The published sizes are defaults that no option changes."""
    def prepare():
        wavelets = importlib.import_module("layers.MultiWaveletCorrelation")
        wavelets.MultiWaveletTransform.__init__.__defaults__ = (1, order, modes, channels, 1, 0, "legendre", 0.1)
        cross = (max(1, channels // 2), order, 512, 0, "legendre", "random", None, "tanh")
        wavelets.MultiWaveletCross.__init__.__defaults__ = cross

    return prepare


def fedformer(folder):
    variants = {
        "low": dict(mode_select="low", modes=64, moving_avg=[4], cross_activation="tanh"),
        "random": dict(mode_select="random", modes=5, moving_avg=[4, 7], cross_activation="softmax"),
        "wavelets": dict(version="Wavelets", mode_select="low", modes=3, moving_avg=[5], cross_activation="tanh"),
    }
    for name, settings in variants.items():
        settings = dict(version="Fourier") | settings
        sizes = dict(e_layers=2, d_layers=2, n_heads=8, d_model=16, d_ff=24)
        model = original(folder, "FEDformer", wavelet_sizes(order=3, modes=4, channels=4), label_len=LOOKBACK // 2,
                         output_attention=False, dec_in=CHANNELS, L=1, base="legendre", **sizes, **settings)
        if name == "random":  # what Ingot's seed 2021 chooses, instead of NumPy's; the network leaves out the activation
            for layer in model.encoder.attn_layers:
                layer.attention.inner_correlation.index = RANDOM_MODES[0]
            for layer in model.decoder.layers:
                layer.self_attention.inner_correlation.index = RANDOM_MODES[1]
                layer.cross_attention.inner_correlation.index_q = RANDOM_MODES[2]
                layer.cross_attention.inner_correlation.index_kv = RANDOM_MODES[3]
                layer.cross_attention.inner_correlation.activation = settings["cross_activation"]
        config = {"model": "fedformer", "layers": 2, "decoder_layers": 2, "heads": 8, "d_model": 16, "d_ff": 24,
                  "version": settings["version"].lower(), "modes": settings["modes"],
                  "mode_select": settings["mode_select"], "moving_averages": settings["moving_avg"],
                  "cross_activation": settings["cross_activation"], "time_features": FEATURES, "wavelet_order": 3,
                  "wavelet_channels": 4, "wavelet_modes": 4, "wavelet_skip": 1}
        constants = without_state(model)
        if len(settings["moving_avg"]) == 1:  # the softmax over one window is 1
            constants += [n for n in model.state_dict() if ".layer." in n and "decomp" in n or n.startswith("decomp.layer")]
        # Fourier blocks give [B, heads, width, length], which their layer reads as [B, length, width].
        mixer = dict(reads="heads", writes="heads" if name == "wavelets" else "misread")
        write("fedformer_" + name, model, decode, config, marks=True, decodes=True, constants=constants,
              layers=decomposition_layers(mixer, mixer))


def patchtst_transformers():
    """Directories as save_pretrained writes them, each with what it answers in evaluation mode, and the gradients of one
    training step (no dropout; batch norm takes the batch's statistics)."""
    from transformers import PatchTSTConfig, PatchTSTForPrediction
    variants = {
        "default": dict(),
        "mixing": dict(channel_attention=True, norm_type="layernorm", pre_norm=False, positional_encoding_type="random",
                       pooling_type=None, scaling="mean"),
        "flat": dict(pooling_type=None, share_embedding=False, scaling=None),
        "cls": dict(use_cls_token=True, pooling_type=None),
    }
    for name, settings in variants.items():
        torch.manual_seed(2)
        config = PatchTSTConfig(num_input_channels=CHANNELS, context_length=LOOKBACK, prediction_length=HORIZON,
                                patch_length=6, patch_stride=4, d_model=8, num_attention_heads=2, num_hidden_layers=2,
                                ffn_dim=12, loss="mse", **settings)
        model = PatchTSTForPrediction(config)
        generator = torch.Generator().manual_seed(3)
        randomize(model, generator)
        model.eval()
        x = torch.randn(BATCH, LOOKBACK, CHANNELS, generator=generator) * 2 + 1
        with torch.no_grad():
            y = model(past_values=x).prediction_outputs
        folder = OUT / f"transformers_{name}"
        model.save_pretrained(folder)
        expected = {"x": x, "y": y, "dy": torch.randn(y.shape, generator=generator)}
        model.train()
        expected["y_training"] = model(past_values=x).prediction_outputs
        expected["y_training"].backward(expected["dy"])
        expected = {key: tensor.detach().transpose(1, 2).contiguous() for key, tensor in expected.items()}
        expected |= {f"grad.{key}": p.grad for key, p in model.named_parameters() if p.grad is not None}
        save_file(expected, folder / "expected.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tslib", type=pathlib.Path)
    parser.add_argument("--patchtst", type=pathlib.Path)
    parser.add_argument("--fedformer", type=pathlib.Path)
    parser.add_argument("--transformers", action="store_true", help="PatchTST as transformers has it")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    if args.patchtst and args.tslib:
        linear_models(args.patchtst)
        patchtst_official(args.patchtst)
        itransformer(args.tslib)
        times_net(args.tslib)
    if args.tslib:
        torch.manual_seed(4)
        autoformer(args.tslib)
    if args.transformers:
        patchtst_transformers()
    if args.fedformer:
        torch.manual_seed(5)
        fedformer(args.fedformer)


if __name__ == "__main__":
    main()
