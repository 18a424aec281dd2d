#!/usr/bin/env python3
"""Writes tests/models/goldens/forecast/*.safetensors: outputs and gradients of the original implementations of
forecasting networks, with the random weights and inputs that made them.

The originals are not part of this project; give the folders of their checkouts:

  tools/goldens/forecast_models.py --tslib Time-Series-Library --patchtst PatchTST/PatchTST_supervised

made with thuml/Time-Series-Library 4e938a1, yuqinie98/PatchTST 204c21e and the versions in requirements.txt.

A file holds: x [B, channels, lookback], marks [B, lookback, features] where the network reads them, y (evaluation
mode), y_training (training mode without dropout), dy, param.NAME, and grad.NAME of sum(y_training * dy). The
metadata's "config" is what Ingot's configuration has to be. Buffers have no gradient.
"""
import argparse
import importlib
import json
import pathlib
import sys
import types

import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "models" / "goldens" / "forecast"
BATCH, CHANNELS, LOOKBACK, HORIZON, FEATURES = 3, 4, 30, 7, 4


def original(folder, module, **settings):
    """Model(settings) of a repository; repositories share the package names `models` and `layers`."""
    for name in [n for n in sys.modules if n.split(".")[0] in ("models", "layers", "utils")]:
        del sys.modules[name]
    unused = types.ModuleType("reformer_pytorch")  # imported beside the layers that are used
    unused.LSHSelfAttention = None
    sys.modules.setdefault("reformer_pytorch", unused)
    sys.path.insert(0, str(folder))
    try:
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
            if not tensor.is_floating_point() or name in constants:
                continue
            noise = torch.randn(tensor.shape, generator=generator) * 0.1
            tensor.copy_(tensor + noise if not name.endswith("running_var") else tensor + noise.abs())


def write(name, model, call, config, rename=lambda n: n, marks=False, constants=()):
    generator = torch.Generator().manual_seed(1)
    randomize(model, generator, constants)
    x = torch.randn(BATCH, LOOKBACK, CHANNELS, generator=generator) * 2 + 1
    mark = torch.rand(BATCH, LOOKBACK, FEATURES, generator=generator) - 0.5
    model.eval()
    parameters = {rename(n): t.detach().clone() for n, t in model.state_dict().items()
                  if t.is_floating_point() and n not in constants}
    with torch.no_grad():
        y = call(model, x, mark)
    model.train()
    y_training = call(model, x, mark)
    dy = torch.randn(y.shape, generator=generator)
    (y_training * dy).sum().backward()
    tensors = {"x": x.transpose(1, 2), "y": y.transpose(1, 2), "y_training": y_training.detach().transpose(1, 2),
               "dy": dy.transpose(1, 2)}
    if marks:
        tensors["marks"] = mark
    tensors |= {"param." + n: t for n, t in parameters.items()}
    tensors |= {"grad." + rename(n): p.grad for n, p in model.named_parameters() if p.grad is not None}
    config = dict(lookback=LOOKBACK, horizon=HORIZON, channels=CHANNELS, dropout=0.0) | config
    save_file({n: t.contiguous() for n, t in tensors.items()}, OUT / f"{name}.safetensors",
              metadata={"config": json.dumps(config)})


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
    write("dlinear", original(patchtst, "DLinear"), plain, {"model": "dlinear", "moving_average": 25})
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
    write("patchtst_official", model, lambda m, x, mark: m(x), config, official_patchtst, constants=scale)


def itransformer(tslib):
    model = original(tslib, "iTransformer", e_layers=2, n_heads=2, d_model=8, d_ff=12)
    config = {"model": "itransformer", "layers": 2, "heads": 2, "d_model": 8, "d_ff": 12, "attention_dropout": 0.0,
              "time_features": FEATURES}
    write("itransformer", model, lambda m, x, mark: m(x, mark, None, None), config, marks=True)


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
    write("timesnet", model, call, config, marks=True, constants=["enc_embedding.position_embedding.pe"])


def patchtst_transformers():
    """Directories as save_pretrained writes them, each with what it answers in evaluation mode."""
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
        save_file({"x": x.transpose(1, 2).contiguous(), "y": y.transpose(1, 2).contiguous()}, folder / "expected.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tslib", type=pathlib.Path, required=True)
    parser.add_argument("--patchtst", type=pathlib.Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    OUT.mkdir(parents=True, exist_ok=True)
    linear_models(args.patchtst)
    patchtst_official(args.patchtst)
    itransformer(args.tslib)
    times_net(args.tslib)
    patchtst_transformers()


if __name__ == "__main__":
    main()
