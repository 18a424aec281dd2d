#include "ingot/core/checked.h"

#include <string>
#include <vector>

#include "ingot/base/error.h"

namespace ingot {
namespace {

[[noreturn]] void overflow(const char* where, std::int64_t a, char sign, std::int64_t b) {
  throw DimensionMismatch(std::string(where) + ": " + std::to_string(a) + " " + sign + " " +
                          std::to_string(b) + " is not a size that a tensor can have");
}

}  // namespace

std::int64_t checked_mul(std::int64_t a, std::int64_t b, const char* where) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) [[unlikely]]
    overflow(where, a, '*', b);
  return result;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* where) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) [[unlikely]]
    overflow(where, a, '+', b);
  return result;
}

std::int64_t checked_sub(std::int64_t a, std::int64_t b, const char* where) {
  std::int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) [[unlikely]]
    overflow(where, a, '-', b);
  return result;
}

std::int64_t checked_numel(std::span<const std::int64_t> sizes, const char* where) {
  // Axes of size 0 are left out of the bound, so that products of some of the axes cannot wrap either.
  std::int64_t product = 1, signs = 0;
  bool empty = false, wraps = false;
  for (const std::int64_t size : sizes) {
    signs |= size;
    empty |= size == 0;
    wraps |= __builtin_mul_overflow(product, size | static_cast<std::int64_t>(size == 0), &product);
  }
  if (wraps || signs < 0 || product > kMaxElements) [[unlikely]] {
    throw DimensionMismatch(std::string(where) + ": sizes " +
                            to_string(std::vector(sizes.begin(), sizes.end())) +
                            " are negative or make more than 2^56 elements");
  }
  return empty ? 0 : product;
}

}  // namespace ingot
