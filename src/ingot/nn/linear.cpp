#include "ingot/nn/linear.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"

namespace ingot {

void LinearOptions::validate() const {
  INGOT_CHECK(in > 0, InvalidConfig("linear.in", fmt::format("must be positive, got {}", in)));
  INGOT_CHECK(out > 0, InvalidConfig("linear.out", fmt::format("must be positive, got {}", out)));
}

Linear::Linear(const ParamSource& source, const LinearOptions& options)
    : weight(source, "weight", {validated(options).out, options.in},
             options.weight_init.value_or(init::fan_in_uniform(options.in))),
      bias(options.bias ? source.take("bias", {options.out},
                                      options.bias_init.value_or(init::fan_in_uniform(options.in)))
                        : Parameter()) {}

void Linear::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

}  // namespace ingot
