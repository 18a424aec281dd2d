#!/usr/bin/env python3
"""One small model for each way that an operator works, with inputs and the outputs of ONNX' reference evaluator (of ONNX
Runtime for operators of com.microsoft), in the layout of ONNX' backend tests:
tests/onnx/goldens/operators/<name>/{model.onnx,test_data_set_0/{input,output}_*.pb}.

    pip install -r tools/goldens/requirements.txt
    python3 tools/goldens/onnx_operators.py
"""
import math
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime
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


MICROSOFT = "com.microsoft"


def codes(dtype, *shape):
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max + 1, shape).astype(dtype)


def fused_cases():
    """The same for what ONNX Runtime makes of graphs."""
    f32, u8, i8 = np.float32, np.uint8, np.int8
    a, b = (codes(u8, 2, 3, 4), f32(0.03), u8(120)), (codes(u8, 2, 3, 4), f32(0.05), u8(7))
    yield "ms_bias_gelu", "BiasGelu", [floats(2, 6), floats(6)], 1, {}
    yield "ms_fast_gelu", "FastGelu", [floats(2, 6), floats(6)], 1, {}
    yield "ms_quick_gelu", "QuickGelu", [floats(2, 6)], 1, {}
    x, skip = floats(2, 3, 8), floats(2, 3, 8)
    yield "ms_skip_layer_norm", "SkipLayerNormalization", [x, skip, floats(8), floats(8), floats(8)], 1, {
        "epsilon": 1e-5}
    yield "ms_skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, floats(8)], 1, {"epsilon": 1e-5}
    ids = whole([[1, 0, 4], [2, 2, 3]], np.int32)
    yield "ms_embed_layer_norm", "EmbedLayerNormalization", [
        ids, whole([[0, 1, 1], [0, 0, 0]], np.int32), floats(5, 8), floats(4, 8), floats(2, 8), floats(8), floats(8),
        whole([[1, 1, 0], [1, 1, 1]], np.int32)], 2, {"epsilon": 1e-5}
    yield "ms_fused_matmul", "FusedMatMul", [floats(2, 4, 3), floats(2, 5, 4)], 1, {
        "transA": 1, "transB": 1, "alpha": 0.5}
    yield "ms_fused_conv", "FusedConv", [floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)], 1, {
        "activation": "LeakyRelu", "activation_params": [0.2]}
    yield "ms_fused_gemm", "FusedGemm", [floats(3, 4), floats(4, 5), floats(5)], 1, {"activation": "Relu"}
    yield "ms_qlinear_add", "QLinearAdd", [*a, *b, f32(0.08), u8(100)], 1, {}
    yield "ms_qlinear_mul", "QLinearMul", [*a, *b, f32(0.2), u8(100)], 1, {}
    yield "ms_qlinear_sigmoid", "QLinearSigmoid", [*a, f32(1 / 256), u8(0)], 1, {}
    yield "ms_qlinear_leaky_relu", "QLinearLeakyRelu", [*a, f32(0.03), u8(50)], 1, {"alpha": 0.1}
    yield "ms_qlinear_concat", "QLinearConcat", [f32(0.06), u8(90), *a, *b], 1, {"axis": 1}
    image = codes(u8, 1, 2, 4, 4), f32(0.04), u8(30)
    yield "ms_qlinear_average_pool", "QLinearAveragePool", [*image, f32(0.05), u8(20)], 1, {"kernel_shape": [2, 2]}
    yield "ms_qlinear_global_average_pool", "QLinearGlobalAveragePool", [*image, f32(0.05), u8(20)], 1, {}
    left, right = (codes(u8, 3, 4), f32(0.02), u8(128)), (codes(i8, 4, 5), f32(0.03), i8(3))
    yield "ms_qgemm", "QGemm", [*left, *right, whole(range(5), np.int32), f32(0.1), u8(128)], 1, {}
    yield "ms_matmul_integer_to_float", "MatMulIntegerToFloat", [
        left[0], right[0], left[1], right[1], left[2], right[2], floats(5)], 1, {}
    yield "ms_dynamic_quantize_matmul", "DynamicQuantizeMatMul", [floats(3, 4), *right, floats(5)], 1, {}


def attention_cases():
    """Fused attentions and weights of a few bits. Signed weights are halved: sums of two products of a full range are more
    than the 16 bits that ONNX Runtime keeps them in on some machines."""
    batch, tokens, heads, size = 2, 3, 2, 4
    width = heads * size
    query, key, value = (floats(batch, tokens, width) for _ in range(3))
    bias, past = floats(3 * width), [floats(batch, heads, 2, size) for _ in range(2)]
    yield "ms_multi_head", "MultiHeadAttention", [query, key, value, bias], 1, {"num_heads": heads}
    yield "ms_multi_head_lengths", "MultiHeadAttention", [query, key, value, None, whole([2, 3], np.int32)], 1, {
        "num_heads": heads, "scale": 0.3}
    left = whole([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]], np.int32)
    yield "ms_multi_head_past", "MultiHeadAttention", [
        query, key, value, None, left, floats(1, heads, tokens, 5), *past], 3, {"num_heads": heads, "unidirectional": 1}
    yield "ms_multi_head_cross", "MultiHeadAttention", [query, *(floats(batch, heads, 5, size) for _ in range(2))], 1, {
        "num_heads": heads}
    weights = floats(6, 3 * width)
    x = floats(batch, tokens, 6)
    yield "ms_attention", "Attention", [x, weights, bias, whole([3, 2], np.int32)], 1, {"num_heads": heads}
    yield "ms_attention_starts", "Attention", [x, weights, bias, whole([3, 3, 0, 1], np.int32)], 1, {"num_heads": heads}
    yield "ms_attention_past", "Attention", [x, weights, bias, left, np.stack(past)], 2, {
        "num_heads": heads, "unidirectional": 1}
    yield "ms_attention_sizes", "Attention", [x, floats(6, 20), floats(20)], 1, {
        "num_heads": heads, "qkv_hidden_sizes": [8, 8, 4]}
    cache = [np.cos(floats(16, 2)), np.sin(floats(16, 2))]
    yield "ms_rotary", "RotaryEmbedding", [query, whole([[0, 1, 2], [4, 5, 6]]), *cache], 1, {}
    yield "ms_rotary_start", "RotaryEmbedding", [floats(batch, heads, tokens, size), whole([3]), *cache], 1, {
        "interleaved": 1}
    size, width = 16, 32
    cache = [np.cos(floats(16, 8)), np.sin(floats(16, 8))]
    query, key, value = floats(1, 4, 4 * size), floats(1, 4, width), floats(1, 4, width)
    sequence = [whole([3], np.int32), whole(4, np.int32)]
    grouped = {"num_heads": 4, "kv_num_heads": 2}
    yield "ms_grouped_prompt", "GroupQueryAttention", [query, key, value, None, None, *sequence, *cache], 3, {
        **grouped, "do_rotary": 1, "local_window_size": 2}
    packed = np.concatenate([query, key, value], 2)[:, :1]
    held = [floats(1, 2, 8, size) for _ in range(2)]
    yield "ms_grouped_step", "GroupQueryAttention", [packed, None, None, *held, *sequence, *cache], 3, {
        **grouped, "do_rotary": 1, "rotary_interleaved": 1, "softcap": 2.0}
    yield "ms_grouped_window", "GroupQueryAttention", [packed, None, None, *held, *sequence], 3, {
        **grouped, "local_window_size": 2}
    yield "ms_grouped_ragged", "GroupQueryAttention", [
        floats(2, 1, 4 * size), *(floats(2, 1, width) for _ in range(2)), *(floats(2, 2, 8, size) for _ in range(2)),
        whole([2, 3], np.int32), whole(4, np.int32), None, None, None, floats(2, 1, 1, 4), floats(4)], 3, grouped
    a, scales = floats(2, 3, 40), np.abs(floats(5, 3)) + np.float32(0.1)
    for bits, blob in ((4, 8), (8, 16), (2, 4)):
        yield f"ms_matmul_{bits}_bits", "MatMulNBits", [
            a, codes(np.uint8, 5, 3, blob), scales, codes(np.uint8, 5, -(-3 * bits // 8))], 1, {
                "K": 40, "N": 5, "bits": bits, "block_size": 16}
    yield "ms_matmul_default_zeros", "MatMulNBits", [a, codes(np.uint8, 5, 3, 8), scales, None, None, floats(5)], 1, {
        "K": 40, "N": 5, "bits": 4, "block_size": 16}
    yield "ms_gather_blocks", "GatherBlockQuantized", [
        codes(np.uint8, 6, 16), whole([[1, 5], [0, 2]]), np.abs(floats(6, 2)), codes(np.uint8, 6, 1)], 1, {
            "bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    yield "ms_quantized_attention", "QAttention", [
        codes(np.uint8, 2, 3, 6), codes(np.int8, 6, 24) // 2, bias, np.float32(0.01), np.float32(0.02),
        whole([3, 2], np.int32), np.uint8(120), np.int8(0)], 1, {"num_heads": heads}
    part = codes(np.uint8, 2, 3), np.float32(0.1), np.uint8(100)
    yield "ms_qlinear_softmax", "QLinearSoftmax", [*part, np.float32(1 / 256), np.uint8(0)], 1, {"axis": -1, "opset": 13}
    yield "ms_qlinear_where", "QLinearWhere", [
        np.array([[True, False, True]]), *part, codes(np.uint8, 2, 3), np.float32(0.2), np.uint8(90),
        np.float32(0.2), np.uint8(110)], 1, {}
    yield "ms_qlinear_conv_last", "QLinearConv", [
        codes(np.uint8, 1, 4, 5, 2), np.float32(0.02), np.uint8(110), codes(np.int8, 3, 2, 2, 2) // 2, np.float32(0.03),
        np.int8(0), np.float32(0.1), np.uint8(128)], 1, {"channels_last": 1}
    yield "ms_fused_matmul_batch", "FusedMatMul", [floats(3, 2, 4), floats(4, 2, 5)], 1, {
        "transBatchA": 1, "transBatchB": 1}


def renamed_cases():
    """Of com.microsoft: what ONNX has got since under the same name, and what has weights of several forms."""
    a, b = floats(2, 3, 4), floats(2, 5, 3)
    yield "ms_transpose_matmul", "TransposeMatMul", [a, b], 1, {"transA": 1, "transB": 1, "alpha": 0.5}
    yield "ms_trilu", "Trilu", [floats(2, 4, 5), whole(1)], 1, {"upper": 0}
    yield "ms_range", "Range", [whole(2), whole(11), whole(3)], 1, {}
    yield "ms_gather_nd", "GatherND", [floats(3, 4, 2), whole([[0, 1], [2, 3]])], 1, {}
    yield "ms_grid_sample", "GridSample", [floats(1, 2, 4, 5), random.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(np.float32)], 1, {
        "mode": "bilinear", "padding_mode": "border", "align_corners": 1}


def erf(x):
    return np.vectorize(math.erf)(x.astype(np.float64))


def device_cases():
    """The same for operators of com.microsoft that ONNX Runtime has for GPUs alone, with what its description of them
    says, in numpy, as the last value."""
    x, skip, bias = floats(2, 6, 4), floats(2, 6, 4), floats(4)
    yield "ms_bias_add", "BiasAdd", [x, bias, skip], 1, {}, x + bias + skip
    gate, wide = floats(2, 3, 8), floats(8)
    left, right = np.split(gate + wide, 2, axis=-1)
    yield "ms_bias_split_gelu", "BiasSplitGelu", [gate, wide], 1, {}, left * right * (1 + erf(right / math.sqrt(2))) / 2
    scores, mask = floats(2, 3, 4, 5), floats(2, 1, 1, 5)
    e = np.exp(scores.astype(np.float64) + mask)
    yield "ms_bias_softmax", "BiasSoftmax", [scores, mask], 1, {"axis": 3, "is_inner_broadcast": 0}, e / e.sum(-1, keepdims=True)
    gamma, beta = floats(6), floats(6)

    def group_norm(image, groups, eps):  # of images with their channels at the end
        parts = image.astype(np.float64).reshape(image.shape[0], -1, groups, image.shape[-1] // groups)
        mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
        return ((parts - mean) / np.sqrt(variance + eps)).reshape(image.shape) * gamma + beta

    image = floats(2, 3, 4, 6)
    plain = group_norm(image, 3, 1e-5)
    yield "ms_group_norm", "GroupNorm", [image, gamma, beta], 1, {"groups": 3, "activation": 0}, plain
    yield "ms_group_norm_silu", "GroupNorm", [image.transpose(0, 3, 1, 2).copy(), gamma, beta], 1, {
        "groups": 3, "activation": 1, "channels_last": 0}, (plain / (1 + np.exp(-plain))).transpose(0, 3, 1, 2)


def runtime_cases():
    """Likewise; what ONNX Runtime (and PyTorch, where it has them) does otherwise than the reference, or alone."""
    draw = np.random.default_rng(37)
    image, grid = draw.standard_normal((1, 2, 4, 5)).astype(np.float32), draw.uniform(-2, 2, (1, 3, 4, 2)).astype(np.float32)
    for padding in "border", "reflection":
        yield f"grid_cubic_{padding}", "GridSample", [image, grid], 1, {"mode": "cubic", "padding_mode": padding}
    scales = np.array([1, 1, 2.3, 1.5], np.float32)
    for mode in "linear", "nearest", "cubic":
        yield f"resize_corners_{mode}", "Resize", [image, None, scales], 1, {
            "mode": mode, "coordinate_transformation_mode": "align_corners"}
    # Where 2.5 / 0.7 of f32 is a tie, and of f64 is none.
    yield "resize_nearest_f32", "Resize", [draw.standard_normal((1, 1, 4, 9)).astype(np.float32), None,
                                           np.array([1, 1, 0.7, 1.3], np.float32)], 1, {}
    weights = [draw.standard_normal(shape).astype(np.float32) for shape in ((1, 12, 4), (1, 12, 3), (1, 24))]
    x, state = draw.standard_normal((5, 2, 4)).astype(np.float32), draw.standard_normal((1, 2, 3)).astype(np.float32)
    peepholes = draw.standard_normal((1, 9)).astype(np.float32)
    attributes = {"hidden_size": 3, "input_forget": 1}
    yield "lstm_input_forget", "LSTM", [x, *weights, None, state, state], 3, attributes
    yield "lstm_input_forget_peepholes", "LSTM", [x, *weights, None, state, state, peepholes], 3, attributes
    yield "cast_bool_to_text", "Cast", [np.array([True, False])], 1, {"to": TensorProto.STRING}
    yield "cast_u64_to_text", "Cast", [whole([0, 2**64 - 1], np.uint64)], 1, {"to": TensorProto.STRING}
    texts = np.array(["1", "-1", " 7 ", "+3", "300", "99999999999"], object)
    for to in "FLOAT", "INT64", "INT32", "UINT8", "UINT32", "UINT64", "BOOL":
        yield f"cast_text_to_{to.lower()}", "Cast", [texts], 1, {"to": getattr(TensorProto, to)}
    texts = np.array(["1.9", "-1e-5", "NaN", "INF", "-INF", "1E8", "0x10"], object)
    yield "cast_text_to_double", "Cast", [texts], 1, {"to": TensorProto.DOUBLE}


def unsigned_cases():
    """Likewise, of unsigned numbers, for which the evaluators lack operators: NumPy's."""
    draw = np.random.default_rng(38)
    for dtype in np.uint16, np.uint64:
        x = draw.integers(0, np.iinfo(dtype).max, (2, 3, 4), dtype, endpoint=True)
        name, over = np.dtype(dtype).name, {"axis": 1, "keepdims": True}
        for op, y in (("Max", x.max(**over)), ("Min", x.min(**over)), ("Sum", x.sum(dtype=dtype, **over)),
                      ("Prod", x.prod(dtype=dtype, **over)), ("SumSquare", (x * x).sum(dtype=dtype, **over)),
                      ("Mean", np.array(x.astype(object).sum(**over) // 3, dtype))):
            yield f"reduce_{op.lower()}_{name}", f"Reduce{op}", [x, whole([1])], 1, {}, y
        yield f"abs_{name}", "Abs", [x], 1, {}, x
        yield f"sign_{name}", "Sign", [x * (x % 2)], 1, {}, x % 2
        yield f"argmax_{name}", "ArgMax", [x], 1, {"axis": 2}, np.expand_dims(x.argmax(2), 2)
        yield f"cumsum_{name}", "CumSum", [x, whole(1)], 1, {}, x.cumsum(1, dtype)
    a, b = draw.integers(0, 2**64 - 1, (2, 3), np.uint64), draw.integers(0, 2**64 - 1, (3, 2), np.uint64)
    yield "matmul_uint64", "MatMul", [a, b], 1, {}, a @ b


def write(name, op, inputs, outputs, attributes, expected=None, domain="", by_runtime=False):
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    given = {n: x for n, x in zip(names, inputs) if n}
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.shape(x))
            for n, x in given.items()]
    fused = [helper.make_opsetid(MICROSOFT, 1)] if domain == MICROSOFT else []
    node = helper.make_node(op, names, results, domain=domain, **attributes)

    def model_with(outs):
        return helper.make_model(helper.make_graph([node], name, info, outs), ir_version=11,
                                 opset_imports=[helper.make_opsetid("", OPSET), *fused])

    model = model_with([onnx.ValueInfoProto(name=r) for r in results])
    if expected is not None:
        values = [expected if expected.dtype.kind in "iu" else expected.astype(np.float32)]
    elif domain == MICROSOFT or by_runtime:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        values = session.run(None, {n: np.asarray(x) for n, x in given.items()})
    else:
        values = ReferenceEvaluator(model).run(None, given)
    tensors = [numpy_helper.from_array(np.asarray(y)) for y in values]
    outs = [helper.make_tensor_value_info(r, t.data_type, list(t.dims)) for r, t in zip(results, tensors)]
    data = OUT / name / "test_data_set_0"
    data.mkdir(parents=True)
    (OUT / name / "model.onnx").write_bytes(model_with(outs).SerializeToString())
    for i, x in enumerate(given.values()):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(x)).SerializeToString())
    for i, t in enumerate(tensors):
        (data / f"output_{i}.pb").write_bytes(t.SerializeToString())


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    for case in cases():
        # A scale of 0.7 makes ties of f32 that the reference, which counts in f64, does not have.
        write(*case, by_runtime=case[0] == "resize_defaults")
    for case in [*fused_cases(), *attention_cases(), *device_cases(), *renamed_cases()]:
        write(*case, domain=MICROSOFT)
    for case in runtime_cases():
        write(*case, by_runtime=True)
    for case in unsigned_cases():
        write(*case)


if __name__ == "__main__":
    main()
