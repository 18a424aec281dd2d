// The layouts of compressed-tensors, DeepSeek's FP8 files and bitsandbytes.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/dtype.h"
#include "ingot/core/stream.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/nvfp4.h"
#include "ingot/quant/checkpoint_fields.h"
#include "ingot/quant/packed_checkpoints.h"

namespace ingot::quant {
namespace {

// f32 of any shape.
Tensor floats_of(const Tensor& t, std::string_view name, std::string_view field) {
  INGOT_CHECK(
      t.defined() && t.numel() > 0 && is_training_dtype(t.dtype()),
      InvalidConfig(fmt::format("{}.{}", name, field),
                    t.defined() ? fmt::format("must be f32, bf16 or f16, is {}", ingot::name(t.dtype()))
                                : std::string("is missing")));
  Tensor y = Tensor::empty(t.shape());
  kernels::launch(kernels::copy, current_stream(t.device()), {.x = t.view(), .y = y.view()});
  return y;
}

// Scales as [rows, groups]: one for all, one a row ([rows] or [rows, 1]) or several.
struct Scales {
  Tensor values;
  std::int64_t groups = 1;
  bool one = false;  // for all
  float at(std::int64_t row, std::int64_t group) const {
    return values.data<float>()[one ? 0 : row * groups + group];
  }
};

Scales scales_of(const Tensor& scale, std::int64_t rows, std::string_view name, std::string_view field) {
  Scales s{.values = floats_of(scale, name, field)};
  s.one = scale.numel() == 1 && rows != 1;
  INGOT_CHECK(s.one || (scale.rank() >= 1 && scale.rank() <= 2 && scale.dim(0) == rows),
              ShapeMismatch(fmt::format("{}.{}", name, field), {rows, -1}, scale.shape().to_vector(),
                            "one scale for all, one a row, or one for each group of a row"));
  s.groups = s.one || scale.rank() == 1 ? 1 : scale.dim(1);
  return s;
}

void check_matrix(const Tensor& w, DType dtype, std::string_view name, std::string_view field) {
  INGOT_CHECK(w.defined() && w.rank() == 2 && w.dtype() == dtype && w.is_contiguous(),
              InvalidConfig(fmt::format("{}.{}", name, field),
                            fmt::format("must be {} [outputs, inputs]", ingot::name(dtype))));
}

}  // namespace

GroupMatrix from_pack_quantized(const PackQuantizedTensors& t, std::string_view name) {
  INGOT_CHECK(t.bits == 4 || t.bits == 8,
              NotImplemented(fmt::format("{}: {} bits in weight_packed; 4 and 8 are read", name, t.bits)));
  INGOT_CHECK(t.packed.defined() && t.packed.rank() == 2,
              DimensionMismatch(fmt::format("{}.weight_packed must be [outputs, words]", name)));
  const int per_word = 32 / t.bits;
  const std::int64_t rows = t.packed.dim(0), cols = t.cols, words = (cols + per_word - 1) / per_word;
  check_field(t.packed, {rows, words}, DType::i32, name, "weight_packed");
  const Scales scales = scales_of(t.scale, rows, name, "weight_scale");
  const std::int64_t groups = scales.groups, zero_rows = (rows + per_word - 1) / per_word;
  GroupMatrix m = empty_group_matrix(t.bits, rows, cols, groups, fmt::format("{}.weight_scale", name));
  if (t.zero_point.defined())
    check_field(t.zero_point, {zero_rows, groups}, DType::i32, name, "weight_zero_point");
  if (t.g_idx.defined()) {
    check_field(t.g_idx, {cols}, DType::i32, name, "weight_g_idx");
    m.order = order_of_groups(t.g_idx, m, name);
  }
  const std::vector<std::int64_t> position = positions_in(m.order, cols);
  parallel_for(rows, 1 + 16384 / cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t g = 0; g < groups; ++g) {
        m.scales.data<float>()[n * groups + g] = scales.at(n, g);
        const int zero = t.zero_point.defined()
                             ? code_of(t.zero_point.data<std::int32_t>()[n / per_word * groups + g],
                                       static_cast<int>(n % per_word), t.bits)
                             : 1 << (t.bits - 1);
        m.zeros.data<std::uint8_t>()[n * groups + g] = static_cast<std::uint8_t>(zero);
      }
      for (std::int64_t k = 0; k < cols; ++k)
        m.codes.data<std::uint8_t>()[n * cols + position[static_cast<std::size_t>(k)]] =
            static_cast<std::uint8_t>(code_of(t.packed.data<std::int32_t>()[n * words + k / per_word],
                                              static_cast<int>(k % per_word), t.bits));
    }
  });
  return m;
}

GroupMatrix from_int8(const Int8Tensors& t, std::string_view name) {
  check_matrix(t.weight, DType::i8, name, "weight");
  const std::int64_t rows = t.weight.dim(0), cols = t.weight.dim(1);
  const Scales scales = scales_of(t.scale, rows, name, "weight_scale");
  const std::int64_t groups = scales.groups;
  GroupMatrix m = empty_group_matrix(8, rows, cols, groups, fmt::format("{}.weight_scale", name));
  if (t.zero_point.defined())
    check_field(t.zero_point, t.scale.shape(), DType::i8, name, "weight_zero_point");
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t g = 0; g < groups; ++g) {
      m.scales.data<float>()[n * groups + g] = scales.at(n, g) / t.divisor;
      const int zero =
          t.zero_point.defined() ? t.zero_point.data<std::int8_t>()[scales.one ? 0 : n * groups + g] : 0;
      m.zeros.data<std::uint8_t>()[n * groups + g] = static_cast<std::uint8_t>(zero + 128);
    }
  }
  for (std::int64_t i = 0; i < m.codes.numel(); ++i)
    m.codes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(t.weight.data<std::int8_t>()[i] + 128);
  return m;
}

CheckpointMatrix from_fp8(const Fp8Tensors& t, std::string_view name) {
  check_matrix(t.weight, DType::f8e4m3, name, "weight");
  CodebookMatrix m{.format = kernels::PackedFormat::fp8,
                   .rows = t.weight.dim(0),
                   .cols = t.weight.dim(1),
                   .group = t.weight.dim(1),
                   .codes = {},
                   .scales = {}};
  m.codes = {t.weight.storage(),
             contiguous_view(t.weight.view().data, t.weight.shape(), DType::u8, t.weight.device())};
  if (t.block_rows == 0) {
    const Scales scales = scales_of(t.scale, m.rows, name, "weight_scale");
    INGOT_CHECK(scales.groups == 1, ShapeMismatch(fmt::format("{}.weight_scale", name), {m.rows, 1},
                                                  t.scale.shape().to_vector()));
    m.scales = Tensor::empty({m.rows, 1});
    for (std::int64_t n = 0; n < m.rows; ++n) m.scales.data<float>()[n] = scales.at(n, 0);
    return m;
  }
  INGOT_CHECK(t.block_rows > 0 && t.block_cols > 0,
              InvalidConfig("weight_block_size",
                            fmt::format("must be positive, got [{}, {}]", t.block_rows, t.block_cols)));
  const std::int64_t groups = (m.cols + t.block_cols - 1) / t.block_cols;
  check_field(t.scale, {(m.rows + t.block_rows - 1) / t.block_rows, groups}, name, "weight_scale_inv");
  const Tensor scale = floats_of(t.scale, name, "weight_scale_inv");
  m.group = t.block_cols;
  m.scales = Tensor::empty({m.rows, groups});
  for (std::int64_t n = 0; n < m.rows; ++n)
    std::copy_n(scale.data<float>() + n / t.block_rows * groups, groups, m.scales.data<float>() + n * groups);
  if (m.group % 64 == 0 || m.group >= m.cols) return m;
  return m.dequantize();
}

namespace {

Tensor bnb_scales(const Bnb4Tensors& t, std::int64_t blocks, std::string_view name) {
  if (!t.nested_absmax.defined()) {
    check_field(t.absmax, {blocks}, DType::f32, name, "weight.absmax");
    return t.absmax;
  }
  check_field(t.absmax, {blocks}, DType::u8, name, "weight.absmax");
  INGOT_CHECK(t.nested_block > 0,
              InvalidConfig(fmt::format("{}.weight.quant_state", name), "nested_blocksize must be positive"));
  check_field(t.nested_absmax, {(blocks + t.nested_block - 1) / t.nested_block}, DType::f32, name,
              "weight.nested_absmax");
  check_field(t.nested_quant_map, {256}, DType::f32, name, "weight.nested_quant_map");
  Tensor scales = Tensor::empty({blocks});
  for (std::int64_t b = 0; b < blocks; ++b)
    scales.data<float>()[b] = t.nested_quant_map.data<float>()[t.absmax.data<std::uint8_t>()[b]] *
                                  t.nested_absmax.data<float>()[b / t.nested_block] +
                              t.nested_offset;
  return scales;
}

}  // namespace

CheckpointMatrix from_bnb4(const Bnb4Tensors& t, std::string_view name) {
  const std::int64_t count = t.rows * t.cols;
  INGOT_CHECK(t.rows > 0 && t.cols > 0 && t.block > 0 && count % 2 == 0,
              InvalidConfig(fmt::format("{}.weight.quant_state", name),
                            fmt::format("a matrix of {} x {} in blocks of {}", t.rows, t.cols, t.block)));
  const std::int64_t bytes = t.weight.defined() ? static_cast<std::int64_t>(t.weight.nbytes()) : 0;
  INGOT_CHECK(
      bytes == count / 2 && t.weight.is_contiguous(),
      ShapeMismatch(fmt::format("{}.weight in bytes", name), {count / 2}, {bytes}, "two codes a byte"));
  const auto* pairs = static_cast<const std::uint8_t*>(t.weight.view().data);
  check_field(t.quant_map, {16}, DType::f32, name, "weight.quant_map");
  const Tensor scales = bnb_scales(t, (count + t.block - 1) / t.block, name);
  const auto code = [&](std::int64_t i) {
    const std::uint8_t pair = pairs[i / 2];
    return static_cast<std::uint8_t>(i % 2 == 0 ? pair >> 4 : pair & 15);
  };
  const bool nf4 =
      std::equal(kernels::kNf4Values.begin(), kernels::kNf4Values.end(), t.quant_map.data<float>());
  if (nf4 && t.block % 64 == 0 && t.cols % t.block == 0) {
    CodebookMatrix m{
        .format = kernels::PackedFormat::nf4,
        .rows = t.rows,
        .cols = t.cols,
        .group = t.block,
        .codes = Tensor::empty({t.rows, t.cols}, DType::u8),
        .scales = {scales.storage(),
                   contiguous_view(scales.view().data, {t.rows, t.cols / t.block}, DType::f32, kCpu)}};
    for (std::int64_t i = 0; i < count; ++i) m.codes.data<std::uint8_t>()[i] = code(i);
    return m;
  }
  Tensor values = Tensor::empty({t.rows, t.cols});
  for (std::int64_t i = 0; i < count; ++i)
    values.data<float>()[i] = t.quant_map.data<float>()[code(i)] * scales.data<float>()[i / t.block];
  return values;
}

CodebookMatrix from_nvfp4(const NvFp4Tensors& t, std::string_view name) {
  check_matrix(t.packed, DType::u8, name, "weight_packed");
  const std::int64_t rows = t.packed.dim(0), cols = 2 * t.packed.dim(1);
  INGOT_CHECK(cols % kernels::kNvfp4Block == 0,
              InvalidConfig(fmt::format("{}.weight_packed", name),
                            fmt::format("has rows of {} codes; NVFP4 has a scale for 16", cols)));
  check_field(t.scale, {rows, cols / kernels::kNvfp4Block}, DType::f8e4m3, name, "weight_scale");
  const char* field = t.multiplies ? "weight_scale_2" : "weight_global_scale";
  const Tensor global = floats_of(t.global, name, field);
  INGOT_CHECK(global.numel() == 1, ShapeMismatch(fmt::format("{}.{}", name, field), {1},
                                                 global.shape().to_vector(), "one number for the matrix"));
  const float factor = t.multiplies ? global.data<float>()[0] : 1 / global.data<float>()[0];
  CodebookMatrix m{.format = kernels::PackedFormat::nvfp4,
                   .rows = rows,
                   .cols = cols,
                   .group = kernels::kNvfp4Block,
                   .codes = Tensor::empty({rows, cols}, DType::u8),
                   .scales = Tensor::empty({rows, cols / kernels::kNvfp4Block}),
                   .row_scales = Tensor::empty({rows})};
  std::fill_n(m.row_scales.data<float>(), rows, factor);
  const auto* bytes = static_cast<const std::uint8_t*>(t.scale.view().data);
  for (std::int64_t i = 0; i < m.scales.numel(); ++i) {
    f8e4m3 scale;
    scale.bits = bytes[i];
    m.scales.data<float>()[i] = static_cast<float>(scale);
  }
  const auto* pairs = t.packed.data<std::uint8_t>();
  for (std::int64_t i = 0; i < m.codes.numel(); ++i)
    m.codes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(pairs[i / 2] >> (i % 2 * 4) & 15);
  return m;
}

BlockMatrix from_mxfp4(const Tensor& blocks, const Tensor& scales, std::string_view name) {
  constexpr std::int64_t kBytes = 16;
  INGOT_CHECK(blocks.rank() == 3 && blocks.dim(2) == kBytes && blocks.dtype() == DType::u8,
              ShapeMismatch(fmt::format("{}_blocks", name), {-1, -1, kBytes}, blocks.shape().to_vector(),
                            "bytes (u8), each with two codes"));
  check_field(scales, {blocks.dim(0), blocks.dim(1)}, DType::u8, name, "scales");
  INGOT_CHECK(blocks.is_contiguous() && scales.is_contiguous(),
              DimensionMismatch(fmt::format("{}: MXFP4 blocks and scales must be contiguous", name)));
  const std::int64_t count = scales.numel();
  BlockMatrix m{.format = find_block_format("MXFP4"),
                .rows = blocks.dim(0),
                .cols = 2 * kBytes * blocks.dim(1),
                .blocks = Tensor::empty({blocks.dim(0), blocks.dim(1) * (kBytes + 1)}, DType::u8)};
  parallel_for(count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto* pairs = blocks.data<std::uint8_t>() + b * kBytes;
      auto* block = m.blocks.data<std::uint8_t>() + b * (kBytes + 1);
      *block++ = scales.data<std::uint8_t>()[b];
      const auto code = [pairs](std::int64_t i) { return pairs[i / 2] >> (i % 2 * 4) & 15; };
      for (std::int64_t i = 0; i < kBytes; ++i)  // GGUF's: i below i + 16
        block[i] = static_cast<std::uint8_t>(code(i) | code(i + kBytes) << 4);
    }
  });
  return m;
}

}  // namespace ingot::quant
