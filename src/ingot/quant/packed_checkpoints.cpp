// GPTQ's and AWQ's layouts, and what all layouts share.
#include "ingot/quant/packed_checkpoints.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/quant/checkpoint_fields.h"
#include "ingot/quant/floats.h"

namespace ingot::quant {
namespace {

// Rows [first, first + rows) of a contiguous [n, ...]; undefined stays so.
Tensor row_range(const Tensor& t, std::int64_t first, std::int64_t rows) {
  if (!t.defined()) return t;
  const View& all = t.view();
  auto* from = static_cast<std::byte*>(all.data) +
               static_cast<std::size_t>(first * all.strides[0]) * byte_size(t.dtype());
  return {t.storage(), contiguous_view(from, t.shape().with(0, rows), t.dtype(), t.device())};
}

bool has_tiles(const GroupMatrix& m) {
  const auto* zeros = m.zeros.data<std::uint8_t>();
  const bool symmetric = std::all_of(zeros, zeros + m.zeros.numel(), [](std::uint8_t z) { return z == 128; });
  if (m.bits == 8 && !symmetric) return false;
  return m.group == m.cols || (m.bits != 2 && m.group % 32 == 0);
}

}  // namespace

Tensor values_of(const CheckpointMatrix& matrix) {
  if (const auto* values = std::get_if<Tensor>(&matrix)) return *values;
  if (const auto* groups = std::get_if<GroupMatrix>(&matrix)) return groups->dequantize();
  return std::get<CodebookMatrix>(matrix).dequantize();
}

CheckpointMatrix rows_of(const CheckpointMatrix& matrix, std::int64_t first, std::int64_t rows) {
  if (rows == 0) return matrix;
  if (const auto* values = std::get_if<Tensor>(&matrix)) return row_range(*values, first, rows);
  const auto part = [&](auto m) {
    m.rows = rows;
    m.codes = row_range(m.codes, first, rows);
    m.scales = row_range(m.scales, first, rows);
    return m;
  };
  if (const auto* codes = std::get_if<CodebookMatrix>(&matrix)) {
    CodebookMatrix m = part(*codes);
    m.row_scales = row_range(m.row_scales, first, rows);
    return m;
  }
  GroupMatrix m = part(std::get<GroupMatrix>(matrix));
  m.zeros = row_range(m.zeros, first, rows);
  return m;
}

PackedPtr pack(const CheckpointMatrix& matrix, std::string_view name) {
  if (const auto* codes = std::get_if<CodebookMatrix>(&matrix)) return pack(*codes, name);
  const auto* groups = std::get_if<GroupMatrix>(&matrix);
  return groups != nullptr && has_tiles(*groups) ? pack(*groups, name) : nullptr;
}

namespace {

// GPTQ's zero points, and scales as f32.
void read_gptq_groups(const GptqTensors& t, std::int64_t n, const Tensor& scales, GroupMatrix& m,
                      std::string_view name) {
  const std::int64_t groups = t.scales.dim(0);
  for (std::int64_t g = 0; g < groups; ++g) {
    m.scales.data<float>()[n * groups + g] = scales.data<float>()[g * m.rows + n];
    const int zero = code_in_stream(t.qzeros.data<std::int32_t>() + g * t.qzeros.dim(1), 1, n, t.bits) +
                     (t.zeros_less_one ? 1 : 0);
    INGOT_CHECK(zero < 256,
                InvalidConfig(fmt::format("{}.qzeros", name),
                              fmt::format("the zero point of output {} is 256; 8 bits have 0 to 255", n)));
    m.zeros.data<std::uint8_t>()[n * groups + g] = static_cast<std::uint8_t>(zero);
  }
}

}  // namespace

GroupMatrix from_gptq(const GptqTensors& t, std::string_view name) {
  INGOT_CHECK(t.bits == 2 || t.bits == 3 || t.bits == 4 || t.bits == 8,
              NotImplemented(fmt::format("{}: GPTQ with {} bits; 2, 3, 4 and 8 are read", name, t.bits)));
  INGOT_CHECK(t.qweight.defined() && t.qweight.rank() == 2,
              DimensionMismatch(fmt::format("{}.qweight must be [inputs · bits / 32, outputs]", name)));
  INGOT_CHECK(t.scales.defined() && t.scales.rank() == 2,
              DimensionMismatch(fmt::format("{}.scales must be [groups, outputs]", name)));
  const std::int64_t words = t.qweight.dim(0), cols = words * 32 / t.bits, rows = t.scales.dim(1),
                     groups = t.scales.dim(0);
  const int held_bits =
      t.bits == 3 ? 4 : t.bits;  // of the codes here, which may be smaller than they could be
  GroupMatrix m = empty_group_matrix(held_bits, rows, cols, groups, fmt::format("{}.scales", name));
  check_field(t.qweight, {words, rows}, DType::i32, name, "qweight");
  check_field(t.qzeros, {groups, (rows * t.bits + 31) / 32}, DType::i32, name, "qzeros");
  if (t.g_idx.defined()) {
    check_field(t.g_idx, {cols}, DType::i32, name, "g_idx");
    m.order = order_of_groups(t.g_idx, m, name);
  }
  const Tensor scales = as_floats(t.scales, fmt::format("{}.scales", name));
  const std::vector<std::int64_t> position = positions_in(m.order, cols);
  constexpr std::int64_t kTile = 16;  // outputs: the words of a cache line
  parallel_for((rows + kTile - 1) / kTile, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t last = std::min(end * kTile, rows);
    for (std::int64_t n = begin * kTile; n < last; ++n) read_gptq_groups(t, n, scales, m, name);
    for (std::int64_t tile = begin * kTile; tile < last; tile += kTile) {
      for (std::int64_t k = 0; k < cols; ++k) {
        for (std::int64_t n = tile; n < std::min(tile + kTile, last); ++n)
          m.codes.data<std::uint8_t>()[n * cols + position[static_cast<std::size_t>(k)]] =
              static_cast<std::uint8_t>(code_in_stream(t.qweight.data<std::int32_t>() + n, rows, k, t.bits));
      }
    }
  });
  return m;
}

GroupMatrix from_awq(const AwqTensors& t, std::string_view name) {
  constexpr std::array kPosition{0, 4, 1, 5, 2, 6, 3, 7};  // of column n mod 8 within its word
  INGOT_CHECK(t.qweight.defined() && t.qweight.rank() == 2,
              DimensionMismatch(fmt::format("{}.qweight must be [inputs, outputs / 8]", name)));
  INGOT_CHECK(
      t.scales.defined() && t.scales.rank() == 2 && t.scales.dim(1) % 8 == 0,
      DimensionMismatch(fmt::format("{}.scales must be [groups, outputs], of outputs in eights", name)));
  const std::int64_t cols = t.qweight.dim(0), rows = t.scales.dim(1), groups = t.scales.dim(0);
  GroupMatrix m = empty_group_matrix(4, rows, cols, groups, fmt::format("{}.scales", name));
  check_field(t.qweight, {cols, rows / 8}, DType::i32, name, "qweight");
  check_field(t.qzeros, {groups, rows / 8}, DType::i32, name, "qzeros");
  const Tensor scales = as_floats(t.scales, fmt::format("{}.scales", name));
  parallel_for(rows / 8, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin * 8; n < end * 8; ++n) {
      const int position = kPosition[static_cast<std::size_t>(n % 8)];
      for (std::int64_t g = 0; g < groups; ++g) {
        m.scales.data<float>()[n * groups + g] = scales.data<float>()[g * rows + n];
        m.zeros.data<std::uint8_t>()[n * groups + g] = static_cast<std::uint8_t>(
            code_of(t.qzeros.data<std::int32_t>()[g * (rows / 8) + n / 8], position, 4));
      }
    }
    for (std::int64_t k = 0; k < cols; ++k) {
      for (std::int64_t w = begin; w < end; ++w) {
        const std::int32_t word = t.qweight.data<std::int32_t>()[k * (rows / 8) + w];
        for (std::int64_t i = 0; i < 8; ++i)
          m.codes.data<std::uint8_t>()[(w * 8 + i) * cols + k] =
              static_cast<std::uint8_t>(code_of(word, kPosition[static_cast<std::size_t>(i)], 4));
      }
    }
  });
  return m;
}

}  // namespace ingot::quant
