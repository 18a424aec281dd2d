#include "ingot/nn/merge_adapters.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

template <class Weight>
void merge(const std::string& name, Weight& weight) {
  const NoGrad no_grad;
  if (std::ranges::any_of(weight.adapters, [](const auto& adapter) { return adapter->is_on(); })) {
    INGOT_CHECK(
        !weight.is_quantized(),
        Error(fmt::format("{} is quantized: an update cannot be merged into it; load the values of the "
                          "base model, merge, and quantize again",
                          name)));
    const DType dtype = weight.dense.value.dtype();
    const bool trainable = weight.dense.trainable();
    weight.dense.replace(to(weight.dense.value, DType::f32));
    weight.dense.replace(to(weight.effective(), dtype));
    weight.dense.set_trainable(trainable);
  }
  weight.adapters.clear();
}

}  // namespace

void merge_adapters_into(const std::string& name, LinearWeight& weight) { merge(name, weight); }
void merge_adapters_into(const std::string& name, ExpertLinear& experts) { merge(name, experts); }

}  // namespace ingot
