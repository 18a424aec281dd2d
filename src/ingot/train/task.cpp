#include "ingot/train/task.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

constexpr const char* kWeights = "weights";

}  // namespace

void TrainTask::read(std::span<const float> metrics, StepRecord& record) {
  record.loss = static_cast<double>(metrics[0]);
  if (metrics.size() > 1) record.grad_norm = static_cast<double>(metrics[1]);
}

void TrainTask::save(Checkpoint& checkpoint) {
  for (const auto& [name, parameter] : named_parameters(model()))
    checkpoint.tensors[kWeights][name] = parameter->value.detach();
}

std::string TrainTask::write(const CheckpointDirectory& directory, std::int64_t step,
                             const Checkpoint& checkpoint) const {
  return directory.write(step, checkpoint);
}

void TrainTask::restore(const SavedCheckpoint& saved, TrainProgress& /*progress*/) {
  const NoGrad no_grad;
  const std::map<std::string, Tensor> weights = saved.tensors(kWeights);
  for (const auto& [name, parameter] : named_parameters(model())) {
    const auto found = weights.find(name);
    INGOT_CHECK(
        found != weights.end() && found->second.shape() == parameter->value.shape(),
        FormatError(saved.path(), -1, name, "is not in the checkpoint's weights, or has another shape"));
    copy_(parameter->value, to(found->second, parameter->value.device()));
  }
}

void check_same_settings(const std::string& begun, const std::string& now, const std::string& earlier,
                         const std::string& place) {
  using Json = nlohmann::ordered_json;
  const auto read = [](const std::string& text) { return parse_json<Json>(text, "the settings"); };
  const Json before = read(begun), wanted = read(now), defaults = read(earlier);
  for (const auto& [key, value] : wanted.items()) {
    if (!before.contains(key) && !defaults.contains(key)) continue;
    const Json old = before.contains(key) ? before.at(key) : defaults.at(key);
    INGOT_CHECK(old == value, InvalidConfig(key, fmt::format("is {}, but the run in {} was begun with {}; "
                                                             "give that, or begin anew elsewhere",
                                                             excerpt(value, 60), place, excerpt(old, 60))));
  }
}

}  // namespace ingot
