#!/usr/bin/env python3
"""Tiny models exported to ONNX by both of torch's exporters, with inputs and the outputs that PyTorch computes, in the
layout of ONNX' own backend tests: tests/onnx/goldens/<name>/{model.onnx,test_data_set_0/{input,output}_*.pb}.

    pip install -r tools/goldens/requirements.txt
    python3 tools/goldens/onnx_graphs.py [mlp resnet blocks bert gpt2 recurrent control external quantized]

`quantized` is `blocks` by ONNX Runtime's quantize_static, with weights of 7 bits, whose products x86 without VNNI does not
saturate; its outputs are those of ONNX Runtime.
"""
import pathlib
import shutil
import sys
import warnings

import numpy
import onnx
import onnx.numpy_helper
import onnxruntime
import torch
import transformers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/onnx/goldens"
warnings.filterwarnings("ignore")


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(7, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1),
                                          torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 3),
                                          torch.nn.Softmax(dim=-1))

    def forward(self, x):
        return self.layers(x)


class Block(torch.nn.Module):
    def __init__(self, channels, outputs, stride):
        super().__init__()
        self.main = torch.nn.Sequential(
            torch.nn.Conv2d(channels, outputs, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(outputs), torch.nn.ReLU(),
            torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(outputs))
        self.side = torch.nn.Sequential(torch.nn.Conv2d(channels, outputs, 1, stride, bias=False),
                                        torch.nn.BatchNorm2d(outputs)) if stride > 1 else torch.nn.Identity()

    def forward(self, x):
        return torch.relu(self.main(x) + self.side(x))


class ResNet(torch.nn.Module):
    """The shape of ResNet-18 (He et al. 2015), narrow."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(6),
                                        torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1))
        self.blocks = torch.nn.Sequential(Block(6, 6, 1), Block(6, 10, 2), Block(10, 10, 1))
        self.head = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(10, 5))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers.BertModel(transformers.BertConfig(
            vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            max_position_embeddings=32))

    def forward(self, input_ids, attention_mask):
        result = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return result.last_hidden_state, result.pooler_output


class Gpt2(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=61, n_embd=24, n_layer=2, n_head=3, n_positions=32, use_cache=False))

    def forward(self, input_ids):
        return self.model(input_ids=input_ids).logits


class Recurrent(torch.nn.Module):
    """Every recurrent layer that PyTorch has, in both directions where it can, and a product written as einsum."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(5, 4, num_layers=2, bidirectional=True)
        self.gru = torch.nn.GRU(8, 3, bidirectional=True)
        self.rnn = torch.nn.RNN(6, 5, nonlinearity="relu")

    def forward(self, x):
        x, (h, c) = self.lstm(x)
        x, g = self.gru(x)
        x, r = self.rnn(x)
        return torch.einsum("tbi,sbi->bts", x, x), h, c, g, r


class Powers(torch.nn.Module):
    """A loop and a branch that depend on the values."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4) * 0.4)

    def forward(self, x, times):
        for i in range(int(times)):
            if bool(x.sum() > 0):
                x = torch.tanh(x @ self.weight) - 0.1 * i
            else:
                x = x @ self.weight + 0.3
        return x


class Blocks(torch.nn.Module):
    """What a convolutional network has whose channels fill vectors: strides, residuals, pools, concatenation, and values that
    something else reads, too."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, 2, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1))
        self.blocks = torch.nn.Sequential(Block(16, 16, 1), Block(16, 32, 2))
        self.up = torch.nn.ConvTranspose2d(32, 16, 2, 2)
        self.head = torch.nn.Conv2d(32, 16, 1)

    def forward(self, x):
        stem = self.stem(x)
        low = self.blocks(stem)
        joined = torch.cat([stem, self.up(low)], 1)
        pooled = torch.nn.functional.avg_pool2d(joined, 3, 1, 1)
        return self.head(torch.sigmoid(pooled) * joined), low.mean((2, 3))


def quantize():
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    source, target = OUT / "blocks_dynamo", OUT / "quantized"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    x = onnx.numpy_helper.to_array(onnx.TensorProto.FromString((source / "test_data_set_0/input_0.pb").read_bytes()))

    class Once(CalibrationDataReader):
        left = [{"x": x}]

        def get_next(self):
            return self.left.pop() if self.left else None

    path = str(target / "model.onnx")
    quantize_static(str(source / "model.onnx"), path, Once(), quant_format=QuantFormat.QDQ, per_channel=True, reduce_range=True)
    for i, y in enumerate(onnxruntime.InferenceSession(path).run(None, {"x": x})):
        (target / f"test_data_set_0/output_{i}.pb").write_bytes(onnx.numpy_helper.from_array(y).SerializeToString())


def randomise(model):
    """Default initial values hide mistakes: zero biases, means of 0 and variances of 1."""
    with torch.no_grad():
        for name, value in list(model.named_parameters()) + list(model.named_buffers()):
            if value.is_floating_point():
                value.add_(torch.randn_like(value) * 0.1)
                if name.endswith("running_var"):
                    value.abs_().add_(0.5)
    return model.eval()


def export(name, model, inputs, outputs, dynamic, dynamo, external=False):
    directory = OUT / name
    shutil.rmtree(directory, ignore_errors=True)
    data = directory / "test_data_set_0"
    data.mkdir(parents=True)
    with torch.no_grad():
        expected = model(*inputs.values())
    path = str(directory / "model.onnx")
    settings = {"dynamic_axes": dynamic} if not dynamo else {
        "dynamic_shapes": {key: {axis: torch.export.Dim(label) for axis, label in axes.items()}
                           for key, axes in dynamic.items() if key in inputs}, "external_data": external}
    torch.onnx.export(model, tuple(inputs.values()), path, input_names=list(inputs), output_names=outputs, dynamo=dynamo,
                      opset_version=18 if dynamo else 17, verbose=False, **settings)
    proto = onnx.load(path, load_external_data=False)
    proto.doc_string = ""
    for node in proto.graph.node:  # where in Python each node was made: half of the file
        node.doc_string = ""
        del node.metadata_props[:]
    del proto.graph.metadata_props[:]
    for value in list(proto.graph.input) + list(proto.graph.output) + list(proto.graph.value_info):
        del value.metadata_props[:]
    del proto.graph.value_info[:]
    onnx.save(proto, path)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for kind, tensors in (("input", inputs.values()), ("output", expected)):
        for i, tensor in enumerate(tensors):
            (data / f"{kind}_{i}.pb").write_bytes(onnx.numpy_helper.from_array(tensor.numpy()).SerializeToString())
    run = onnxruntime.InferenceSession(path).run(None, {key: value.numpy() for key, value in inputs.items()})
    worst = max(float(numpy.abs(a - b.numpy()).max()) for a, b in zip(run, expected))
    print(f"{name}: {sum(f.stat().st_size for f in directory.rglob('*') if f.is_file())} bytes, "
          f"onnxruntime differs from PyTorch by {worst:.2g}, "
          f"operators {sorted({node.op_type for node in proto.graph.node})}")
    assert worst < 1e-4


def main():
    torch.manual_seed(7)
    ids = torch.randint(0, 61, (2, 9))
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 5:] = 0
    batch = {0: "batch"}
    models = {
        "mlp": (Mlp(), {"x": torch.randn(4, 7)}, ["y"], {"x": batch}),
        "resnet": (ResNet(), {"x": torch.randn(2, 3, 33, 35)}, ["logits"], {"x": batch}),
        "blocks": (Blocks(), {"x": torch.randn(2, 3, 40, 24)}, ["y", "means"], {"x": batch}),
        "bert": (Bert(), {"input_ids": ids, "attention_mask": mask}, ["hidden", "pooled"],
                 {"input_ids": {0: "batch", 1: "tokens"}, "attention_mask": {0: "batch", 1: "tokens"}}),
        "gpt2": (Gpt2(), {"input_ids": ids}, ["logits"], {"input_ids": {0: "batch", 1: "tokens"}}),
        "recurrent": (Recurrent(), {"x": torch.randn(7, 3, 5)}, ["product", "h", "c", "g", "r"], {"x": {1: "batch"}}),
        "control": (torch.jit.script(Powers()), {"x": torch.randn(2, 4), "times": torch.tensor(5)}, ["y"], {"x": batch}),
    }
    wanted = sys.argv[1:] or [*models, "external", "quantized"]
    for name, (model, inputs, outputs, dynamic) in models.items():
        if name not in wanted:
            continue
        model = randomise(model)
        if name not in ("gpt2", "blocks"):  # transformers' mask needs aten::diff, which the older exporter lacks
            export(name + "_torchscript", model, inputs, outputs, dynamic, dynamo=False)
        if name not in ("recurrent", "control"):  # the newer exporter writes their loops out
            export(name + "_dynamo", model, inputs, outputs, dynamic, dynamo=True)
    if "quantized" in wanted:
        quantize()
    if "external" in wanted:
        export("mlp_external", randomise(Mlp()), models["mlp"][1], ["y"], {"x": batch}, dynamo=True, external=True)


if __name__ == "__main__":
    main()
