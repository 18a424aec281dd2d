#include "ingot/quant/packed_slice.h"

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/dtype.h"

namespace ingot::quant {
namespace {

void check_cut(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end, std::int64_t whole,
               std::int64_t unit, const char* of, std::string_view name) {
  const auto is_cut = [&](std::int64_t at) { return at % unit == 0 || at == whole; };
  INGOT_CHECK(
      begin >= 0 && begin < end && end <= whole && is_cut(begin) && is_cut(end),
      InvalidConfig(std::string(name),
                    fmt::format("{} {} to {} of {} are wanted of a {} matrix, which can be cut at multiples "
                                "of {}; take fewer ranks, or a format of smaller blocks",
                                of, begin, end, whole, matrix.format_name(), unit)));
}

}  // namespace

std::int64_t row_unit(const PackedMatrix& /*matrix*/) { return kernels::kPanelRows; }
std::int64_t column_unit(const PackedMatrix& matrix) {
  return kernels::packed_layout(matrix.format).step_cols();
}

PackedPtr slice_rows(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                     std::string_view name) {
  check_cut(matrix, begin, end, matrix.rows, row_unit(matrix), "rows", name);
  const std::int64_t first = begin / kernels::kPanelRows,
                     last = (end + kernels::kPanelRows - 1) / kernels::kPanelRows,
                     panel_bytes = matrix.data.dim(1);
  auto part = std::make_shared<PackedMatrix>(matrix);
  part->rows = end - begin;
  part->data = Tensor::empty({last - first, panel_bytes}, DType::u8);
  std::memcpy(part->data.data<std::uint8_t>(), matrix.data.data<std::uint8_t>() + first * panel_bytes,
              part->data.nbytes());
  return part;
}

PackedPtr slice_columns(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                        std::string_view name) {
  const kernels::PackedLayout layout = kernels::packed_layout(matrix.format);
  INGOT_CHECK(!matrix.order.defined(),
              InvalidConfig(std::string(name),
                            "has columns in an order of their own (GPTQ's desc_act), which cannot "
                            "be split among ranks; take a checkpoint without"));
  check_cut(matrix, begin, end, matrix.cols, layout.step_cols(), "columns", name);
  auto part = std::make_shared<PackedMatrix>(matrix);
  part->cols = end - begin;
  const std::size_t header = layout.panel_header_bytes(), from_bytes = layout.panel_bytes(matrix.cols),
                    to_bytes = layout.panel_bytes(part->cols),
                    skipped = static_cast<std::size_t>(begin / layout.step_cols()) * layout.step_bytes();
  part->data = Tensor::empty({matrix.data.dim(0), static_cast<std::int64_t>(to_bytes)}, DType::u8);
  const std::uint8_t* from = matrix.data.data<std::uint8_t>();
  auto* to = part->data.data<std::uint8_t>();
  for (std::int64_t panel = 0; panel < matrix.data.dim(0); ++panel, from += from_bytes, to += to_bytes) {
    std::memcpy(to, from, header);
    std::memcpy(to + header, from + header + skipped, to_bytes - header);
  }
  return part;
}

}  // namespace ingot::quant
