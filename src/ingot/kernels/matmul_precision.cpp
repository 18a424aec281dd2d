#include "ingot/kernels/matmul_precision.h"

#include <array>
#include <atomic>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"

namespace ingot::kernels {
namespace {

std::atomic<MatmulPrecision>& precision_value() {
  static std::atomic<MatmulPrecision> value{MatmulPrecision::highest};
  return value;
}

}  // namespace

MatmulPrecision matmul_precision() { return precision_value().load(std::memory_order_relaxed); }
void set_matmul_precision(MatmulPrecision precision) { precision_value() = precision; }

MatmulPrecision parse_matmul_precision(std::string_view name, std::string_view key) {
  static const std::array<std::string, 2> names{"highest", "medium"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<MatmulPrecision>(i);
  }
  throw InvalidConfig(std::string(key), fmt::format("must be one of {}, got '{}'{}", fmt::join(names, ", "),
                                                    name, did_you_mean(name, names)));
}

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision precision) : previous_(matmul_precision()) {
  set_matmul_precision(precision);
}
MatmulPrecisionScope::~MatmulPrecisionScope() { set_matmul_precision(previous_); }

}  // namespace ingot::kernels
