#include "ingot/quant/linear.h"

#include <algorithm>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/host_memory.h"
#include "ingot/core/stream.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/index.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/weight_only.h"

namespace ingot::quant {
namespace {

constexpr std::int64_t kMostStepBlocks = 8;  // of any layout: rounding up to it serves all formats
constexpr std::int64_t kUnpackedRows = 32;  // integers take eight at once: as many read the weight four times

// [..., n] as [rows, n]; x is contiguous.
View as_matrix(const Tensor& x) {
  return contiguous_view(x.view().data, {x.view().rows(), x.dim(-1)}, x.dtype(), x.device());
}

// The weights that share an input (Q, K and V) have equal orders, each in a tensor of its own. Those of a GPU
// are not read to find that out: the input is then rounded for each.
bool same_order(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined() || a.storage() == b.storage()) return true;
  return has_host_memory(a.device()) && has_host_memory(b.device()) && a.numel() == b.numel() &&
         std::equal(a.data<std::int64_t>(), a.data<std::int64_t>() + a.numel(), b.data<std::int64_t>());
}

Tensor reordered(const Tensor& x, const Tensor& order) {
  Tensor y = Tensor::empty(x.shape(), DType::f32, x.device());
  const std::int64_t rows = x.view().rows(), cols = x.dim(-1);
  if (!has_host_memory(x.device())) {
    View index = order.view();  // the same for every row
    index.rank = 2;
    index.shape = {rows, cols};
    index.strides = {0, 1};
    kernels::launch(kernels::gather, current_stream(x.device()),
                    {.x = as_matrix(x), .index = index, .y = as_matrix(y), .axis = 1});
    return y;
  }
  const auto* from = order.data<std::int64_t>();
  parallel_for(rows, 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * cols; i < end * cols; i += cols)
      for (std::int64_t c = 0; c < cols; ++c) y.data<float>()[i + c] = x.data<float>()[i + from[c]];
  });
  return y;
}

// Where a rounded input lies, and what rounds rows [begin, begin + rows of x) of it.
Tensor empty_blocks(std::int64_t rows, std::int64_t cols, std::int64_t blocks, Device device) {
  const std::int64_t needed = std::max(blocks, (cols + kernels::kPackedBlock - 1) / kernels::kPackedBlock);
  const std::int64_t whole = (needed + kMostStepBlocks - 1) / kMostStepBlocks * kMostStepBlocks;
  // One line more, for an odd number: the rows that a kernel reads at once then fall into different sets
  // of L1.
  return Tensor::empty({rows, (whole + 1) * 64}, DType::u8, device);
}

Tensor empty_rows(std::int64_t rows, std::int64_t cols, Device device) {
  constexpr std::int64_t kStep = kernels::packed_layout(kernels::PackedFormat::w8a8).step_cols();
  constexpr auto kHeader = static_cast<std::int64_t>(sizeof(kernels::ActivationRow));
  return Tensor::empty({rows, kHeader + (cols + kStep - 1) / kStep * kStep}, DType::u8, device);
}

// [rows, spans, ...]; in memory a span of all rows lies together, as matmuls take one after the other.
Tensor empty_spans(std::int64_t rows, std::int64_t cols) {
  constexpr auto kSpanBytes = static_cast<std::int64_t>(sizeof(kernels::ActivationSpan));
  const std::int64_t spans = (cols + kernels::kPackedSpan - 1) / kernels::kPackedSpan;
  const Tensor by_span = Tensor::empty({spans, rows, kSpanBytes}, DType::u8);
  View by_row = by_span.view();
  std::swap(by_row.shape[0], by_row.shape[1]);
  std::swap(by_row.strides[0], by_row.strides[1]);
  return {by_span.storage(), by_row};
}

View some_rows(const View& x, std::int64_t begin, std::int64_t count) {
  View part = x;
  part.shape[0] = count;
  part.data = x.as<std::byte>() + begin * x.stride(0) * static_cast<std::int64_t>(byte_size(x.dtype));
  return part;
}

void round_into(Rounding rounding, const View& x, const View& y) {
  const Stream stream = current_stream(x.device);
  if (rounding == Rounding::rows) return kernels::launch(kernels::quantize_rows, stream, {.x = x, .y = y});
  if (rounding == Rounding::spans) return kernels::launch(kernels::quantize_spans, stream, {.x = x, .y = y});
  kernels::launch(kernels::quantize_activations, stream, {.x = x, .y = y});
}

// Without VNNI a dot product of int16 codes takes little longer than one of int8, and what is multiplied
// beside a column tens of times as large keeps its digits. With VNNI it takes twice as long.
bool takes_spans() { return kernels::instruction_set_limit() < kernels::InstructionSet::avx512_vnni; }

// GGUF's formats of up to 3.5 bits have numbers up to 62 in their codebooks, IQ4_XS up to 127. Places that a
// codebook has no number for hold 0, which would be -128.
bool has_coarse_codebook(const PackedMatrix& weight) {
  constexpr int kCoarse = 64, kZero = 128;
  if (weight.format != kernels::PackedFormat::codebook || weight.data.numel() == 0) return false;
  const std::uint8_t* table = weight.data.data<std::uint8_t>() + kernels::kTableAt;
  return std::all_of(table, table + 16,
                     [](int code) { return code == 0 || std::abs(code - kZero) <= kCoarse; });
}

std::int64_t row_count(const Shape& shape) { return shape.drop_last().numel(); }

}  // namespace

Rounding rounding(const PackedMatrix* weight, std::int64_t rows) {
  if (weight == nullptr || weight->order.defined() || kernels::is_weight_only(weight->format) ||
      !kernels::kernel_traits(weight->data.device()).rounded_inputs)
    return Rounding::none;
  if (kernels::is_row_scaled(weight->format)) return Rounding::rows;
  const bool spans = rows >= kManyRows && takes_spans() && rounded_weight_code(*weight, rows) == 0;
  return spans ? Rounding::spans : Rounding::blocks;
}

int rounded_weight_code(const PackedMatrix& weight, std::int64_t rows) {
  constexpr int kFewBits = 4;
  const kernels::PackedLayout layout = kernels::packed_layout(weight.format);
  const kernels::InstructionSet level = kernels::instruction_set_limit();
  if (rows < kManyRows || weight.order.defined() || !has_host_memory(weight.data.device()) ||
      level < kernels::InstructionSet::avx2 || level >= kernels::InstructionSet::amx ||
      kernels::is_weight_only(weight.format) || kernels::is_row_scaled(weight.format) ||
      layout.low_bits + layout.high_bits > kFewBits)
    return 0;
  if (level >= kernels::InstructionSet::avx512_vnni) return kernels::kMostByteWeight;
  return layout.low_bits == 2 || has_coarse_codebook(weight) ? kernels::kMostQuadWeight
                                                             : kernels::kMostPairWeight;
}

bool prefers_f32_tiles(std::int64_t rows) {
  constexpr std::int64_t kFewRows = 4;  // read the weight once, at the rate of the memory
  const kernels::InstructionSet level = kernels::instruction_set_limit();
  return level == kernels::InstructionSet::avx2 ||
         (level > kernels::InstructionSet::avx2 && rows <= kFewRows);
}

Activations::Activations(const Shape& shape, Rounding rounding,
                         FunctionRef<Tensor(std::int64_t, std::int64_t)> make)
    : shape_(shape) {
  INGOT_ASSERT(rounding != Rounding::none);
  const std::int64_t rows = row_count(shape), cols = std::max<std::int64_t>(shape.back(), 1);
  const Tensor& to = rounding == Rounding::rows    ? (rounded_rows_ = empty_rows(rows, cols, kCpu))
                     : rounding == Rounding::spans ? (rounded_spans_ = empty_spans(rows, cols))
                                                   : (rounded_ = empty_blocks(rows, cols, 0, kCpu));
  constexpr std::int64_t kGrainElements = 8192,
                         kPieceElements = 16384;  // 5 µs of work; 64 KB, well inside L2
  const std::int64_t piece = std::max<std::int64_t>(kPieceElements / cols, 1);
  parallel_for(rows, 1 + kGrainElements / cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; row += piece) {
      const std::int64_t next = std::min(row + piece, end);
      const Tensor x = make(row, next);
      INGOT_CHECK(
          x.shape() == Shape({next - row, cols}) && x.dtype() == DType::f32 && x.is_contiguous(),
          ShapeMismatch("rows to be rounded (contiguous f32)", {next - row, cols}, x.shape().to_vector()));
      round_into(rounding, x.view(), some_rows(to.view(), row, next - row));
    }
  });
}

const Tensor& Activations::x() const {
  const bool rounded = rounded_.defined() || rounded_rows_.defined() || rounded_spans_.defined();
  INGOT_CHECK(
      x_.defined() || !rounded,
      Error(
          "an input that was quantized by the op that made it is not there as f32; ask all layers that share "
          "it how they round it (nn's common_rounding)"));
  return x_;
}

const Tensor& Activations::floats() const {
  INGOT_CHECK(x().defined() && x().rank() >= 1 && x().dtype() == DType::f32 && x().is_contiguous(),
              DimensionMismatch("a matmul with a quantized weight takes a contiguous f32 tensor [..., in]"));
  return x_;
}

const Tensor& Activations::rounded(std::int64_t blocks, const Tensor& order) const {
  if (rounded_.defined() && rounded_.dim(1) >= blocks * 64 && same_order(order, order_)) return rounded_;
  order_ = order;
  rounded_ = empty_blocks(row_count(shape_), shape_.back(), blocks, x_.device());
  round_into(Rounding::blocks, as_matrix(order.defined() ? reordered(floats(), order) : floats()),
             rounded_.view());
  return rounded_;
}

const Tensor& Activations::rounded_rows() const {
  if (rounded_rows_.defined()) return rounded_rows_;
  rounded_rows_ = empty_rows(row_count(shape_), shape_.back(), x_.device());
  round_into(Rounding::rows, as_matrix(floats()), rounded_rows_.view());
  return rounded_rows_;
}

const Tensor& Activations::rounded_spans() const {
  if (rounded_spans_.defined()) return rounded_spans_;
  rounded_spans_ = empty_spans(row_count(shape_), shape_.back());
  round_into(Rounding::spans, as_matrix(floats()), rounded_spans_.view());
  return rounded_spans_;
}

namespace {

// One matmul, checked, with its input as the weight wants it.
struct Product {
  kernels::PackedFormat format;
  View x, weight, y, bias;
  int weight_code = 0;

  std::int64_t panels() const { return weight.dim(0); }
  // The part with panels [begin, end).
  Product part(std::int64_t begin, std::int64_t end) const {
    const auto columns = [&](const View& of) {
      View some = of;
      const auto axis = static_cast<std::size_t>(of.rank - 1);
      some.shape[axis] = std::min(end * kernels::kPanelRows, of.dim(-1)) - begin * kernels::kPanelRows;
      some.data = of.as<float>() + begin * kernels::kPanelRows;
      return some;
    };
    return {format,     x, some_rows(weight, begin, end - begin), columns(y), bias ? columns(bias) : bias,
            weight_code};
  }
  void run() const {
    const Stream stream = current_stream(y.device);
    if (kernels::is_weight_only(format))
      return kernels::launch(kernels::weight_only_matmul, stream,
                             {.format = format, .x = x, .weight = weight, .y = y, .bias = bias});
    if (kernels::is_row_scaled(format))
      return kernels::launch(kernels::row_scaled_matmul, stream,
                             {.x = x, .weight = weight, .y = y, .bias = bias});
    kernels::launch(
        kernels::quantized_matmul, stream,
        {.format = format, .x = x, .weight = weight, .y = y, .bias = bias, .weight_code = weight_code});
  }
};

Product product_of(const Activations& x, const PackedMatrix& weight, const Tensor& bias, const Tensor& y) {
  Product product{.format = weight.format, .weight = weight.data.view(), .y = as_matrix(y)};
  if (bias.defined()) product.bias = bias.view();
  if (kernels::is_weight_only(weight.format)) {
    product.x = as_matrix(x.floats());
  } else if (kernels::is_row_scaled(weight.format)) {
    product.x = x.rounded_rows().view();
  } else if (rounding(&weight, product.y.dim(0)) == Rounding::spans) {
    product.x = x.rounded_spans().view();
  } else {
    const kernels::PackedLayout layout = kernels::packed_layout(weight.format);
    product.x = x.rounded(layout.steps(weight.cols) * layout.step_blocks, weight.order).view();
    product.weight_code = rounded_weight_code(weight, product.y.dim(0));
  }
  return product;
}

void check(const Activations& x, const PackedMatrix& weight, const Tensor& bias) {
  INGOT_CHECK(x.shape().rank() >= 1 && x.shape().back() == weight.cols,
              ShapeMismatch("quantized linear (weight)", {-1, x.shape().rank() >= 1 ? x.shape().back() : 1},
                            {weight.rows, weight.cols}, "the weight is [out, in]"));
  INGOT_CHECK(!bias.defined() || (bias.shape() == Shape({weight.rows}) && bias.dtype() == DType::f32),
              ShapeMismatch("quantized linear (bias, f32)", {weight.rows},
                            bias.defined() ? bias.shape().to_vector() : std::vector<std::int64_t>{}));
}

// A GPU multiplies many rows faster by its tensor cores, in bf16, than by integers: the weight's values cost
// little beside that many matmuls, and bf16 rounds them and the input less than the format does.
bool unpacks(const PackedMatrix& weight, std::int64_t rows) {
  return rows >= kUnpackedRows && kernels::kernel_traits(weight.data.device()).dequantizes_for_many_rows;
}

Tensor cast(const Tensor& x, DType dtype) {
  const Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  kernels::launch(kernels::copy, current_stream(x.device()), {.x = x.view(), .y = y.view()});
  return y;
}

void multiply_unpacked(const Activations& x, const PackedMatrix& weight, const Tensor& bias,
                       const Tensor& y) {
  const Stream stream = current_stream(y.device());
  const Tensor values = Tensor::empty({weight.rows, weight.cols}, DType::bf16, y.device());
  kernels::launch(kernels::dequantize_rows, stream,
                  {.format = weight.format, .weight = weight.data.view(), .ids = {}, .y = values.view()});
  const Tensor a =
      cast(weight.order.defined() ? reordered(x.floats(), weight.order) : x.floats(), DType::bf16);
  const Tensor product = Tensor::empty(y.shape(), DType::bf16, y.device());
  const Tensor rounded_bias = bias.defined() ? cast(bias, DType::bf16) : bias;
  View transposed = values.view();
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  kernels::launch(kernels::gemm, stream,
                  {.a = as_matrix(a),
                   .b = transposed,
                   .c = as_matrix(product),
                   .bias = rounded_bias.defined() ? rounded_bias.view() : View{}});
  kernels::launch(kernels::copy, stream, {.x = product.view(), .y = y.view()});
}

// Matmuls that round their input alike, by all threads in one go. They are cut into units of a few panels;
// the kernels run in one piece inside a thread. As they do it themselves, many rows get a large share, for
// their activations to stay in cache, and few a small piece at a time, as they are done before a thread is
// awake.
void run_together(std::span<const Product> products) {
  constexpr std::int64_t kFewRows = 12, kPanelsAtOnce = 6;  // two or three at once in the kernels
  constexpr std::int64_t kUnitBytes = 48 * 1024;  // 2 µs of reading, many times what a launch costs
  const std::int64_t panel_bytes = products.front().weight.dim(1), m = products.front().y.dim(0);
  const std::int64_t unit =
      m > kFewRows ? kPanelsAtOnce : std::max<std::int64_t>(kUnitBytes / 3 / panel_bytes, 1) * 3;
  std::vector<std::int64_t> starts{0};
  for (const Product& p : products) starts.push_back(starts.back() + (p.panels() + unit - 1) / unit);
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0; i < products.size(); ++i) {
      const std::int64_t first = std::max(begin, starts[i]), last = std::min(end, starts[i + 1]);
      if (first >= last) continue;
      const Product& p = products[i];
      p.part((first - starts[i]) * unit, std::min((last - starts[i]) * unit, p.panels())).run();
    }
  };
  if (m > kFewRows) return parallel_for(starts.back(), 1, run);
  parallel_share(starts.back(), 1, 1, run);
}

}  // namespace

std::vector<Tensor> linear(const Activations& x, std::span<const WeightAndBias> layers) {
  const std::int64_t rows = row_count(x.shape());
  const auto round_alike = [&](const WeightAndBias& layer) {
    const Rounding kind = rounding(&layer.weight, rows);
    return kind != Rounding::none && kind == rounding(&layers.front().weight, rows);
  };
  const bool together = layers.size() > 1 && std::ranges::all_of(layers, round_alike);
  std::vector<Tensor> results;
  std::vector<Product> products;
  for (const auto& [weight, bias] : layers) {
    check(x, weight, bias);
    const Tensor& y = results.emplace_back(
        Tensor::empty(x.shape().with(-1, weight.rows), DType::f32, weight.data.device()));
    if (y.numel() == 0) continue;
    if (unpacks(weight, rows)) {
      multiply_unpacked(x, weight, bias, y);
      continue;
    }
    const Product product = product_of(x, weight, bias, y);
    together ? products.push_back(product) : product.run();  // x may be rounded anew for the next
  }
  if (!products.empty()) run_together(products);
  return results;
}

Tensor linear(const Activations& x, const PackedMatrix& weight, const Tensor& bias) {
  const WeightAndBias layer{weight, bias};
  return linear(x, std::span(&layer, 1)).front();
}

Tensor linear(const Tensor& x, const PackedMatrix& weight, const Tensor& bias) {
  return linear(Activations(x), weight, bias);
}

}  // namespace ingot::quant
