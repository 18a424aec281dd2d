#!/usr/bin/env python3
"""One small model for each way that an operator works, with inputs and the outputs of ONNX' reference evaluator, in the
layout of ONNX' backend tests: tests/onnx/goldens/operators/<name>/{model.onnx,test_data_set_0/{input,output}_*.pb}.

    pip install -r tools/goldens/requirements.txt
    python3 tools/goldens/onnx_operators.py
"""
import pathlib
import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/onnx/goldens/operators"
OPSET = 25
random = np.random.default_rng(7)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def whole(values, dtype=np.int64):
    return np.array(values, dtype=dtype)


def cases():
    """(name, operator, inputs, number of outputs, attributes); an input that is None is left out."""
    q, k, v = floats(2, 4, 3, 8), floats(2, 2, 5, 8), floats(2, 2, 5, 6)
    mask = random.integers(0, 2, (3, 5)).astype(bool)
    mask[1] = False
    yield "attention_shared_heads", "Attention", [q, k, v], 1, {}
    yield "attention_mask", "Attention", [q, k, v, mask], 1, {"softcap": 2.0}
    yield "attention_bias", "Attention", [q, k, v, floats(2, 1, 3, 5)], 1, {"is_causal": 1, "scale": 0.3}
    past = floats(2, 2, 4, 8), floats(2, 2, 4, 6)
    yield "attention_past", "Attention", [q, k, v, None, *past], 3, {"is_causal": 1}
    yield "attention_packed", "Attention", [floats(2, 3, 32), floats(2, 5, 16), floats(2, 5, 16)], 1, {
        "q_num_heads": 4, "kv_num_heads": 2}
    positions = whole([[2, 0, 1], [4, 3, 2]])
    yield "rotary", "RotaryEmbedding", [floats(2, 4, 3, 8), floats(6, 4), floats(6, 4), positions], 1, {}
    yield "rotary_part", "RotaryEmbedding", [floats(2, 4, 3, 8), floats(2, 3, 2), floats(2, 3, 2)], 1, {
        "interleaved": 1, "rotary_embedding_dim": 4}
    yield "tensor_scatter", "TensorScatter", [floats(2, 3, 6, 2), floats(2, 3, 4, 2), whole([1, 4])], 1, {
        "mode": "circular"}
    image = floats(1, 2, 5, 6)
    sizes = whole([1, 2, 3, 4])
    yield "resize_defaults", "Resize", [image, None, np.array([1, 1, 1.6, 0.7], np.float32)], 1, {}
    yield "resize_antialias", "Resize", [image, None, None, sizes], 1, {"mode": "cubic", "antialias": 1}
    yield "resize_linear_antialias", "Resize", [image, None, None, sizes], 1, {"mode": "linear", "antialias": 1}
    yield "resize_symmetric", "Resize", [image, None, np.array([1, 1, 0.7, 1.3], np.float32)], 1, {
        "mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}
    region = np.array([0.1, 0.2, 0.9, 1.4], np.float32)
    yield "resize_crop", "Resize", [image, region, None, whole([3, 4])], 1, {
        "mode": "linear", "axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0}
    yield "resize_not_larger", "Resize", [image, None, None, whole([8, 8])], 1, {
        "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}
    yield "col2im", "Col2Im", [floats(2, 12, 6), whole([4, 5]), whole([2, 3])], 1, {"strides": [2, 1]}
    yield "lp_pool", "LpPool", [floats(1, 2, 5, 5)], 1, {"kernel_shape": [2, 2], "strides": [2, 2], "p": 3}
    yield "lp_normalization", "LpNormalization", [floats(2, 4)], 1, {"axis": 0}
    yield "conv_volume", "Conv", [floats(1, 4, 4, 5, 5), floats(6, 2, 2, 3, 2), floats(6)], 1, {
        "group": 2, "strides": [2, 1, 1], "pads": [1, 0, 1, 1, 1, 0]}
    yield "rms_two_axes", "RMSNormalization", [floats(2, 3, 4), floats(3, 4)], 1, {"axis": 1}
    regions = np.array([[0.5, 0.5, 4, 3], [1, 0, 5, 4.5]], np.float32)
    yield "roi_align", "RoiAlign", [image, regions, whole([0, 0])], 1, {
        "output_height": 2, "output_width": 3, "sampling_ratio": 2}
    yield "deform_conv", "DeformConv", [floats(1, 2, 4, 4), floats(3, 2, 2, 2), floats(1, 8, 3, 3), floats(3),
                                        floats(1, 4, 3, 3)], 1, {"kernel_shape": [2, 2]}
    yield "affine_grid", "AffineGrid", [floats(2, 2, 3), whole([2, 3, 4, 5])], 1, {"align_corners": 1}
    yield "dft_one_side_back", "DFT", [floats(2, 5, 2), None, whole(1)], 1, {"inverse": 1, "onesided": 1}
    yield "center_crop_pad", "CenterCropPad", [floats(5, 4), whole([2, 7])], 1, {}
    yield "cumprod", "CumProd", [floats(3, 4), whole(1)], 1, {"exclusive": 1, "reverse": 1}
    yield "swish", "Swish", [floats(6)], 1, {"alpha": 0.5}
    yield "mod_floats", "Mod", [floats(6), floats(6)], 1, {"fmod": 0}
    yield "bitwise", "BitwiseXor", [whole([1, 65535], np.uint16), whole([3, 1], np.uint16)], 1, {}
    yield "shift_signed", "BitShift", [whole([-8, 5], np.int32), whole([1, 40], np.int32)], 1, {"direction": "RIGHT"}
    yield "compare_unsigned", "Less", [whole([2**63, 1], np.uint64), whole([1, 2**63], np.uint64)], 1, {}
    yield "quantize_16", "QuantizeLinear", [floats(2, 6) * 5, np.float32(0.1), whole(30000, np.uint16)], 1, {}
    yield "quantize_blocks", "QuantizeLinear", [floats(2, 6) * 5, np.abs(floats(2, 3)) + 1], 1, {
        "axis": 1, "block_size": 2, "output_dtype": TensorProto.INT8}
    yield "dequantize_16", "DequantizeLinear", [whole([-300, 7], np.int16), np.float32(0.5)], 1, {}
    yield "cast_e5m2fnuz", "Cast", [np.array([1.3, -2e5, 3e-6, 0], np.float32)], 1, {"to": TensorProto.FLOAT8E5M2FNUZ}
    yield "cast_u32", "Cast", [whole([-1, 2**32 + 5])], 1, {"to": TensorProto.UINT32}
    words = np.array(["a,b", "c", ""], dtype=object)
    yield "string_split", "StringSplit", [words], 2, {"delimiter": ","}
    yield "regex", "RegexFullMatch", [words], 1, {"pattern": "[a-c](,b)?"}


def write(name, op, inputs, outputs, attributes):
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    given = {n: x for n, x in zip(names, inputs) if n}
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in given.items()]
    node = helper.make_node(op, names, results, **attributes)

    def model_with(outs):
        return helper.make_model(helper.make_graph([node], name, info, outs), ir_version=11,
                                 opset_imports=[helper.make_opsetid("", OPSET)])

    values = ReferenceEvaluator(model_with([onnx.ValueInfoProto(name=r) for r in results])).run(None, given)
    tensors = [numpy_helper.from_array(np.asarray(y)) for y in values]
    outs = [helper.make_tensor_value_info(r, t.data_type, list(t.dims)) for r, t in zip(results, tensors)]
    data = OUT / name / "test_data_set_0"
    data.mkdir(parents=True)
    (OUT / name / "model.onnx").write_bytes(model_with(outs).SerializeToString())
    for i, x in enumerate(given.values()):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    for i, t in enumerate(tensors):
        (data / f"output_{i}.pb").write_bytes(t.SerializeToString())


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    for case in cases():
        write(*case)


if __name__ == "__main__":
    main()
