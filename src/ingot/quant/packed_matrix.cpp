#include "ingot/quant/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/core/host_memory.h"
#include "ingot/core/stream.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/index.h"
#include "ingot/kernels/quantized.h"
#include "ingot/quant/codebook_matrix.h"
#include "ingot/quant/group_matrix.h"
#include "ingot/quant/quantize.h"

namespace ingot::quant {
namespace {

// Formats that are not blocks of GGUF's.
struct GroupFormat {
  std::string_view name;
  GroupOptions options;
};
constexpr std::array kGroupFormats{
    GroupFormat{"int8", {.bits = 8, .group = 0}},
    GroupFormat{"int8-g64", {.bits = 8, .group = 64}},
    GroupFormat{"int4-g32", {.bits = 4, .group = 32}},
    GroupFormat{"int4-g64", {.bits = 4, .group = 64}},
    GroupFormat{"int4-g128", {.bits = 4, .group = 128}},
    GroupFormat{"int4-g32-zero", {.bits = 4, .group = 32, .symmetric = false}},
    GroupFormat{"int4-g64-zero", {.bits = 4, .group = 64, .symmetric = false}},
    GroupFormat{"int4-g128-zero", {.bits = 4, .group = 128, .symmetric = false}},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::vector<std::string> quantized_formats() {
  std::vector<std::string> names;
  for (const BlockFormat& format : block_formats()) {
    if (!format.is_written()) continue;
    names.emplace_back(format.name);
    std::ranges::transform(names.back(), names.back().begin(),
                           [](unsigned char c) { return std::tolower(c); });
  }
  for (const GroupFormat& format : kGroupFormats) names.emplace_back(format.name);
  for (const char* name : {"w8a8", "nf4", "nvfp4", "fp8", "fp8-128x128", "ternary"}) names.emplace_back(name);
  return names;
}

std::optional<GroupOptions> find_group_options(std::string_view format) {
  for (const GroupFormat& group_format : kGroupFormats)
    if (same_name(group_format.name, format)) return group_format.options;
  return std::nullopt;
}

namespace {

static_assert(Dequantize<BlockMatrix> && Dequantize<GroupMatrix> && Dequantize<CodebookMatrix>);

template <Quantize Rounding>
PackedPtr round_and_pack(const Tensor& w, std::string_view name, const Rounding& rounding) {
  const Dequantize auto matrix = rounding(w, name);
  if constexpr (requires { pack(matrix, name); })
    return pack(matrix, name);
  else
    return pack(matrix);
}

}  // namespace

PackedPtr quantize_and_pack(const Tensor& w, std::string_view format, std::string_view name) {
  const auto in = [&](const auto& rounding) { return round_and_pack(w, name, rounding); };
  if (const BlockFormat* blocks = find_block_format(format))
    return in([&](const Tensor& weight, std::string_view named) {
      return BlockMatrix::quantize(weight, *blocks, named);
    });
  if (const auto options = find_group_options(format))
    return in([&](const Tensor& weight, std::string_view named) {
      return GroupMatrix::quantize(weight, *options, named);
    });
  if (same_name(format, "nf4"))
    return in([](const Tensor& weight, std::string_view named) {
      return CodebookMatrix::quantize_nf4(weight, named);
    });
  if (same_name(format, "nvfp4"))
    return in([](const Tensor& weight, std::string_view named) {
      return CodebookMatrix::quantize_nvfp4(weight, named);
    });
  if (same_name(format, "fp8")) return in(CodebookMatrix::quantize_fp8);
  if (same_name(format, "fp8-128x128")) return in(CodebookMatrix::quantize_fp8_tiles);
  if (same_name(format, "ternary")) return in(GroupMatrix::quantize_ternary);
  if (same_name(format, "w8a8"))
    return pack_row_scaled(GroupMatrix::quantize(w, {.bits = 8, .group = 0}, name), name);
  if (same_name(format, "f32")) return pack_f32(w, name);
  const std::vector<std::string> names = quantized_formats();
  throw InvalidConfig("format", fmt::format("'{}' is not a format{}; there are: {}", format,
                                            did_you_mean(format, names), fmt::join(names, ", ")));
}

namespace {

// Back from the order of the tiles' columns to the matrix' own.
Tensor in_own_order(const Tensor& y, const Tensor& order) {
  const Tensor ordered = Tensor::zeros(y.shape(), DType::f32, y.device());
  View index = order.view();  // the same for every row
  index.rank = 2;
  index.shape = {y.dim(0), y.dim(1)};
  index.strides = {0, 1};
  kernels::launch(kernels::scatter_add, current_stream(y.device()),
                  {.x = y.view(), .index = index, .y = ordered.view(), .axis = 1});
  return ordered;
}

}  // namespace

Tensor values(const PackedMatrix& matrix, DType dtype) {
  const Device device = matrix.data.device();
  // The kernel rounds to bf16 as it writes: half of the bytes, and no tensor of f32 in between.
  const bool rounds = dtype == DType::bf16 && !matrix.order.defined();
  const Tensor y = Tensor::empty({matrix.rows, matrix.cols}, rounds ? dtype : DType::f32, device);
  kernels::launch(kernels::dequantize_rows, current_stream(device),
                  {.format = matrix.format, .weight = matrix.data.view(), .ids = {}, .y = y.view()});
  const Tensor ordered = matrix.order.defined() ? in_own_order(y, matrix.order) : y;
  if (dtype == ordered.dtype()) return ordered;
  const Tensor cast = Tensor::empty(ordered.shape(), dtype, device);
  kernels::launch(kernels::copy, current_stream(device), {.x = ordered.view(), .y = cast.view()});
  return cast;
}

Tensor rows(const PackedMatrix& matrix, const Tensor& ids) {
  const Device device = matrix.data.device();
  for (std::int64_t i = 0; has_host_memory(device) && i < ids.numel(); ++i) {
    const std::int64_t id = ids.data<std::int64_t>()[i];
    INGOT_CHECK(
        id >= 0 && id < matrix.rows,
        DimensionMismatch(fmt::format("row {} was asked for, but the matrix has {}", id, matrix.rows)));
  }
  const Tensor y = Tensor::empty({ids.numel(), matrix.cols}, DType::f32, device);
  kernels::launch(kernels::dequantize_rows, current_stream(device),
                  {.format = matrix.format, .weight = matrix.data.view(), .ids = ids.view(), .y = y.view()});
  return matrix.order.defined() ? in_own_order(y, matrix.order) : y;
}

}  // namespace ingot::quant
