#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/checked.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Of com.microsoft: operators between codes, and weights of a few bits with a scale for each block.

namespace ingot::onnx {
namespace {

/// Codes with their scale and zero point, which are the inputs behind them.
Tensor dequantized(const OpCall& call, std::size_t i) {
  const std::array<Value, 3> inputs{call.value_in(i), call.in(i + 1),
                                    call.has(i + 2) ? call.value_in(i + 2) : Value()};
  return call.as("DequantizeLinear", inputs)[0].tensor;
}
Values quantized(const OpCall& call, const Tensor& y, std::size_t scale) {
  const std::array<Value, 3> inputs{y, call.in(scale),
                                    call.has(scale + 1) ? call.value_in(scale + 1) : Value()};
  return call.as("QuantizeLinear", inputs);
}

template <Tensor (*op)(const Tensor&, const Tensor&)>
Values quantized_pair(const OpCall& call) {
  return quantized(call, op(dequantized(call, 0), dequantized(call, 3)), 6);
}

/// The channels of an image from the end to axis 1, and back.
Tensor channels_first(const Tensor& x) {
  std::vector<int> order{0, x.rank() - 1};
  for (int i = 1; i < x.rank() - 1; ++i) order.push_back(i);
  return contiguous(permute(x, order));
}
Tensor channels_last(const Tensor& x) {
  std::vector<int> order{0};
  for (int i = 2; i < x.rank(); ++i) order.push_back(i);
  order.push_back(1);
  return contiguous(permute(x, order));
}

/// An operator of one input between codes.
Values quantized_by(const OpCall& call, std::string_view op) {
  const bool last = call.integer("channels_last", 0) != 0;
  const Tensor x = dequantized(call, 0);
  const Tensor y = call.as(op, std::array<Value, 1>{last ? channels_first(x) : x})[0].tensor;
  return quantized(call, last ? channels_last(y) : y, 3);
}
Values quantized_sigmoid(const OpCall& call) { return quantized_by(call, "Sigmoid"); }
Values quantized_leaky_relu(const OpCall& call) { return quantized_by(call, "LeakyRelu"); }
Values quantized_average_pool(const OpCall& call) { return quantized_by(call, "AveragePool"); }
Values quantized_global_average_pool(const OpCall& call) { return quantized_by(call, "GlobalAveragePool"); }

/// Softmax as the operator set that the attribute names has it: of one axis, or of all from there on.
Values quantized_softmax(const OpCall& call) {
  const Tensor x = dequantized(call, 0);
  const int axis = call.axis("axis", -1, x.rank());
  if (call.integer("opset", 13) >= 13) {
    const Tensor y = softmax(contiguous(transpose(x, axis, x.rank() - 1)));
    return quantized(call, contiguous(transpose(y, axis, x.rank() - 1)), 3);
  }
  std::int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= x.dim(i);
  return quantized(call, reshape(softmax(reshape(x, {rows, rows == 0 ? 0 : x.numel() / rows})), x.shape()),
                   3);
}

Values quantized_where(const OpCall& call) {
  return quantized(call, where(call.in(0), dequantized(call, 1), dequantized(call, 4)), 7);
}

/// A convolution whose images have their channels at the end.
Values laid_out_convolution(const OpCall& call) {
  Values inputs;
  for (std::size_t i = 0; i < call.input_count(); ++i)
    inputs.push_back(call.has(i) ? call.value_in(i) : Value());
  const bool last = call.integer("channels_last", 0) != 0;
  if (last && call.has(0)) inputs[0].tensor = channels_first(call.in(0, 3));
  Values made = call.as("QLinearConv", inputs);
  if (last) made[0].tensor = channels_last(made[0].tensor);
  return made;
}

/// Scale and zero point of the result first, then three inputs for each part.
Values quantized_concat(const OpCall& call) {
  std::vector<Tensor> parts;
  for (std::size_t i = 2; i < call.input_count(); i += 3) parts.push_back(dequantized(call, i));
  INGOT_CHECK(!parts.empty(), FormatError(call.where(), -1, "input", "is missing"));
  return quantized(call, concat(parts, call.axis("axis", 0, parts[0].rank())), 0);
}

/// a b + c in whole numbers; the scale of a row of c is that of both factors.
Values quantized_gemm(const OpCall& call) {
  const auto side = [&](std::size_t i, const char* name) {
    const Tensor x = to(dequantized(call, i), DType::f64);
    return call.integer(name, 0) != 0 ? contiguous(transpose(x, 0, 1)) : x;
  };
  call.in(0, 2, 2), call.in(3, 2, 2);
  Tensor y = matmul(side(0, "transA"), side(3, "transB"));
  if (call.has(6)) {
    y = add(y, mul(to(call.in(6), DType::f64), mul(to(call.in(1), DType::f64), to(call.in(4), DType::f64))));
  }
  y = to(scale(y, call.number("alpha", 1)), DType::f32);
  if (!call.has(7)) return {y};
  return quantized(call, y, 7);
}

Tensor plus_input(const OpCall& call, const Tensor& x, std::size_t i) {
  return call.has(i) ? add(x, call.in(i)) : x;
}

/// Codes of both sides, each with a scale; the result is not quantized.
Values integer_matmul_to_float(const OpCall& call) {
  const std::array<Value, 4> inputs{call.value_in(0), call.value_in(1), call.optional(4), call.optional(5)};
  const Tensor sums = to(call.as("MatMulInteger", inputs)[0].tensor, DType::f32);
  return {plus_input(call, mul(sums, mul(call.in(2), call.in(3))), 6)};
}

/// The left side is quantized as it comes, by one scale.
Values dynamic_quantize_matmul(const OpCall& call) {
  const Values a = call.as("DynamicQuantizeLinear", std::array<Value, 1>{call.in(0)});
  const std::array<Value, 4> inputs{a[0], call.value_in(1), a[2], call.optional(3)};
  const Tensor sums = to(call.as("MatMulInteger", inputs)[0].tensor, DType::f32);
  return {plus_input(call, mul(sums, mul(a[1].tensor, call.in(2))), 4)};
}

/// Weights of an LSTM as codes, [directions, inputs, 4 hidden], with a scale for each direction or column.
/// The inputs are not rounded, as ONNX Runtime does.
Values dynamic_quantize_lstm(const OpCall& call) {
  const auto weights = [&](std::size_t i, std::size_t scales) {
    const Tensor& codes = call.in(i, 3, 3);
    const auto spread = [&](const Tensor& x) {
      const std::int64_t columns = codes.dim(0) == 0 ? 0 : x.numel() / codes.dim(0);
      return reshape(to(x, DType::f32), {codes.dim(0), 1, columns});
    };
    const Tensor centred = sub(to(codes, DType::f32), spread(call.in(scales + 1)));
    return contiguous(transpose(mul(centred, spread(call.in(scales))), 1, 2));
  };
  Values inputs{call.in(0), weights(1, 8), weights(2, 10)};
  for (std::size_t i = 3; i < 8; ++i) inputs.push_back(call.has(i) ? call.value_in(i) : Value());
  return call.as("LSTM", inputs);
}

/// Numbers of `bits` each, the first in the lowest bits of the first byte.
unsigned code_at(const std::uint8_t* bytes, std::int64_t i, std::int64_t bits) {
  const std::int64_t first = i * bits, byte = first / 8, shift = first % 8;
  unsigned window = bytes[byte];
  if (shift + bits > 8) window |= static_cast<unsigned>(bytes[byte + 1]) << 8;
  return (window >> shift) & ((1U << bits) - 1);
}

/// What MatMulNBits says of its weights: N rows of K numbers, in blocks with a scale each.
struct BlockWeights {
  std::int64_t rows, columns, block, bits;

  std::int64_t blocks() const { return (columns + block - 1) / block; }
  std::int64_t block_bytes() const { return block * bits / 8; }
  std::int64_t zero_bytes() const { return (blocks() * bits + 7) / 8; }
};

BlockWeights read_block_weights(const OpCall& call) {
  const BlockWeights w{call.integer("N", 0), call.integer("K", 0), call.integer("block_size", 0),
                       call.integer("bits", 4)};
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  INGOT_CHECK(w.rows > 0 && w.columns > 0 && w.rows <= kMost && w.columns <= kMost && w.block >= 8 &&
                  w.block <= kMost && w.block % 8 == 0 && w.bits >= 1 && w.bits <= 8,
              FormatError(call.where(), -1, "attributes",
                          fmt::format("say {} x {} weights of {} bits in blocks of {}", w.rows, w.columns,
                                      w.bits, w.block)));
  const auto check = [&](std::size_t i, std::int64_t expected) {
    INGOT_CHECK(call.in(i).numel() == expected,
                DimensionMismatch(fmt::format("{}: input {} has shape {}, expected {} elements", call.where(),
                                              i, to_string(call.in(i).shape()), expected)));
  };
  check(1, checked_mul(w.rows, checked_mul(w.blocks(), w.block_bytes(), "MatMulNBits"), "MatMulNBits"));
  check(2, checked_mul(w.rows, w.blocks(), "MatMulNBits"));
  if (call.has(3)) check(3, w.rows * (call.in(3).dtype() == DType::u8 ? w.zero_bytes() : w.blocks()));
  INGOT_CHECK(call.in(1).dtype() == DType::u8, FormatError(call.where(), -1, "B", "does not hold UINT8"));
  if (call.integer("weight_prepacked", 0) != 0) call.refuse("weights that are packed for one device");
  if (call.has(4)) call.refuse("g_idx");
  return w;
}

/// The zero point of each block, [N, blocks].
std::vector<float> block_zeros(const OpCall& call, const BlockWeights& w) {
  const auto count = static_cast<std::size_t>(w.rows * w.blocks());
  if (!call.has(3)) return std::vector<float>(count, static_cast<float>(1U << (w.bits - 1)));
  const Tensor zeros = contiguous(call.in(3));
  if (zeros.dtype() != DType::u8) return to(zeros, DType::f32).to_vector<float>();
  std::vector<float> values;
  values.reserve(count);
  for (std::int64_t n = 0; n < w.rows; ++n) {
    for (std::int64_t b = 0; b < w.blocks(); ++b)
      values.push_back(
          static_cast<float>(code_at(zeros.data<std::uint8_t>() + n * w.zero_bytes(), b, w.bits)));
  }
  return values;
}

/// a Wᵀ with W [N, K] of a few bits.
Values matmul_of_blocks(const OpCall& call) {
  const BlockWeights w = read_block_weights(call);
  const Tensor codes = contiguous(call.in(1)), scales = contiguous(to(call.in(2), DType::f32));
  const std::vector<float> zeros = block_zeros(call, w);
  const Tensor weight = Tensor::empty({w.rows, w.columns}, DType::f32);
  parallel_for(w.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * w.blocks(); i < end * w.blocks(); ++i) {
      const std::int64_t row = i / w.blocks(), first = i % w.blocks() * w.block;
      const std::uint8_t* block = codes.data<std::uint8_t>() + i * w.block_bytes();
      const float scale = scales.data<float>()[i], zero = zeros[static_cast<std::size_t>(i)];
      float* out = weight.data<float>() + row * w.columns + first;
      for (std::int64_t k = 0; k < std::min(w.block, w.columns - first); ++k)
        out[k] = (static_cast<float>(code_at(block, k, w.bits)) - zero) * scale;
    }
  });
  const Tensor& a = call.in(0, 1);
  return {
      to(plus_input(call, to(matmul(to(a, DType::f32), contiguous(transpose(weight, 0, 1))), a.dtype()), 5),
         a.dtype())};
}

/// Numbers of less than a byte that lie beside each other on the last axis, each in a byte of its own.
Tensor unpacked_codes(const Tensor& x, std::int64_t bits) {
  if (bits == 8) return x;
  const Tensor bytes = contiguous(x);
  const std::int64_t each = 8 / bits;
  const Tensor result = Tensor::empty(x.shape().with(x.rank() - 1, x.dim(-1) * each), DType::u8);
  for (std::int64_t i = 0; i < result.numel(); ++i)
    result.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(code_at(bytes.data<std::uint8_t>(), i, bits));
  return result;
}

/// Rows of a table of codes by their indices, in floats.
Values gather_of_blocks(const OpCall& call) {
  const Tensor &table = call.in(0, 1), &ids = call.in(1);
  const std::int64_t block = call.integer("block_size", 128), bits = call.integer("bits", 4);
  const int gathered = call.axis("gather_axis", 0, table.rank()),
            blocked = call.axis("quantize_axis", 1, table.rank());
  if (gathered != 0 || blocked == 0) call.refuse("a gather that is not of whole rows");
  const bool bytes = call.is_of(0, ElementType::plain) && table.dtype() == DType::u8;
  INGOT_CHECK(block >= 1 && (bits == 2 || bits == 4 || bits == 8),
              FormatError(call.where(), -1, "bits", fmt::format("is {}, in blocks of {}", bits, block)));
  if (!bytes && call.is_of(0, ElementType::plain))
    call.refuse("codes of " + std::string(name(table.dtype())));
  const auto rows_of = [&](std::size_t i) {
    const Tensor rows = call.as("Gather", std::array<Value, 2>{call.value_in(i), ids})[0].tensor;
    return to(bytes && i != 2 ? unpacked_codes(rows, bits) : rows, DType::f32);
  };
  const Tensor codes = rows_of(0);
  const int axis = blocked + ids.rank() - 1;
  const auto spread = [&](const Tensor& x) {
    std::vector<std::int64_t> repeats(static_cast<std::size_t>(codes.rank()), 1);
    repeats[static_cast<std::size_t>(axis)] = block;
    INGOT_CHECK(x.rank() == codes.rank() && x.dim(axis) >= (codes.dim(axis) + block - 1) / block,
                DimensionMismatch(fmt::format("{}: scales {} for {} in blocks of {}", call.where(),
                                              to_string(x.shape()), to_string(codes.shape()), block)));
    return narrow(repeat_each(x, repeats), axis, 0, codes.dim(axis));
  };
  Tensor centred = codes;
  if (call.has(3)) {
    centred = sub(codes, spread(rows_of(3)));
  } else if (bytes) {
    centred = codes - std::ldexp(1, static_cast<int>(bits) - 1);
  }
  return {to(mul(centred, spread(rows_of(2))), call.in(2).dtype())};
}

constexpr std::array kFusedQuantizedOps = {
    OpRow{"com.microsoft.DynamicQuantizeLSTM", dynamic_quantize_lstm},
    OpRow{"com.microsoft.DynamicQuantizeMatMul", dynamic_quantize_matmul},
    OpRow{"com.microsoft.GatherBlockQuantized", gather_of_blocks, 0, kOwnTypes},
    OpRow{"com.microsoft.MatMulIntegerToFloat", integer_matmul_to_float},
    OpRow{"com.microsoft.MatMulNBits", matmul_of_blocks},
    OpRow{"com.microsoft.QGemm", quantized_gemm, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearAdd", quantized_pair<add>, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearAveragePool", quantized_average_pool, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearConcat", quantized_concat, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearConv", laid_out_convolution, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearGlobalAveragePool", quantized_global_average_pool, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearLeakyRelu", quantized_leaky_relu, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearMul", quantized_pair<mul>, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearSigmoid", quantized_sigmoid, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearSoftmax", quantized_softmax, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearWhere", quantized_where, 0, kOwnTypes}};

}  // namespace

std::span<const OpRow> fused_quantized_ops() { return kFusedQuantizedOps; }

}  // namespace ingot::onnx
