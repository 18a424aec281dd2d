#include "ingot/quant/block_matrix.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/quant/floats.h"

namespace ingot::quant {

void check_block_divides(const BlockFormat& format, std::int64_t cols, std::string_view name) {
  INGOT_CHECK(
      cols % format.elements == 0,
      InvalidConfig(std::string(name),
                    fmt::format("a row has {} elements, which blocks of {} ({}) do not divide; use a format "
                                "with smaller blocks, or leave this weight as it is",
                                cols, format.elements, format.name)));
}

BlockMatrix BlockMatrix::quantize(const Tensor& w, const BlockFormat& format, std::string_view name) {
  const Tensor values = as_floats(w, name);
  check_block_divides(format, w.dim(1), name);
  BlockMatrix result{&format, w.dim(0), w.dim(1), {}};
  const auto row_bytes = static_cast<std::int64_t>(format.row_bytes(w.dim(1)));
  result.blocks = Tensor::empty({result.rows, row_bytes}, DType::u8);
  try {
    ingot::quant::quantize(
        format, {values.data<float>(), static_cast<std::size_t>(values.numel())},
        std::as_writable_bytes(std::span(result.blocks.data<std::uint8_t>(), result.blocks.nbytes())));
  } catch (const NonFinite& error) {
    throw NonFinite(std::string(name), error.what());
  }
  return result;
}

Tensor BlockMatrix::dequantize() const {
  Tensor values = Tensor::empty({rows, cols});
  ingot::quant::dequantize(*format, std::as_bytes(std::span(blocks.data<std::uint8_t>(), blocks.nbytes())),
                           {values.data<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

}  // namespace ingot::quant
