#include <array>

#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"

// Whole numbers, bit by bit.

namespace ingot::onnx {
namespace {

template <class F>
Values bitwise(const OpCall& call, F f) {
  return {zip_integers(call.in(0), call.in(1), f, call.node().op.c_str())};
}
Values bitwise_and(const OpCall& call) {
  return bitwise(call, [](std::int64_t a, std::int64_t b) { return a & b; });
}
Values bitwise_or(const OpCall& call) {
  return bitwise(call, [](std::int64_t a, std::int64_t b) { return a | b; });
}
Values bitwise_xor(const OpCall& call) {
  return bitwise(call, [](std::int64_t a, std::int64_t b) { return a ^ b; });
}
Values bitwise_not(const OpCall& call) {
  const Tensor& x = call.in(0);
  std::vector<std::int64_t> values = as_integers(x);
  for (std::int64_t& v : values) v = ~v;
  const Tensor whole = Tensor::from(values, x.shape());
  const ElementType type = call.value_in(0).type;
  return {to(type == ElementType::plain ? whole : wrapped_to(whole, type), x.dtype())};
}

/// How many bits an element of the first input has, and whether one of them is its sign.
std::pair<std::int64_t, bool> bits_of_first(const OpCall& call) {
  switch (call.value_in(0).type) {
    case ElementType::u16:
      return {16, false};
    case ElementType::u32:
      return {32, false};
    case ElementType::u64:
      return {64, false};
    default:
      return {static_cast<std::int64_t>(byte_size(call.in(0).dtype())) * 8, call.in(0).dtype() != DType::u8};
  }
}

/// To the right with copies of the sign; by a number of bits that there are not, all of them.
Values bit_shift(const OpCall& call) {
  const bool left = call.text("direction", "") == "LEFT";
  const auto [width, is_signed] = bits_of_first(call);
  const std::int64_t bits = width;
  const bool has_sign = is_signed;
  const Tensor shifted = zip_integers(
      call.in(0), call.in(1),
      [&](std::int64_t x, std::int64_t y) {
        if (y < 0 || y >= bits) return std::int64_t{!left && has_sign && x < 0 ? -1 : 0};
        const auto word = static_cast<std::uint64_t>(x);
        if (left) return static_cast<std::int64_t>(word << y);
        return has_sign ? x >> y : static_cast<std::int64_t>(word >> y);
      },
      "BitShift");
  const ElementType type = call.value_in(0).type;
  return {type == ElementType::plain ? shifted : wrapped_to(shifted, type)};
}

constexpr std::array kBitOps = {OpRow{"BitShift", bit_shift, 0, 0}, OpRow{"BitwiseAnd", bitwise_and, 0, 0},
                                OpRow{"BitwiseNot", bitwise_not, 0, 0}, OpRow{"BitwiseOr", bitwise_or, 0, 0},
                                OpRow{"BitwiseXor", bitwise_xor, 0, 0}};

}  // namespace

std::span<const OpRow> bit_ops() { return kBitOps; }

}  // namespace ingot::onnx
