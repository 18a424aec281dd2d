#include "ingot/train/language/distillation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/train/language/distillation_loss.h"
#include "ingot/train/language/teacher.h"

namespace ingot {
namespace {

std::int64_t rounded_to_64(std::int64_t count) { return (count + 63) / 64 * 64; }

}  // namespace

Distillation::Distillation(const TrainConfig& config, const TrainingData& data, const LanguageModel& model,
                           const text::Tokenizer& tokenizer)
    : config_(config.distillation), classes_(model.config.vocab_size) {
  if (!config_.teacher.empty()) {
    teacher_ = load_teacher(config_.teacher, tokenizer, data.max_token(), config.dtype, model.device());
    classes_ = std::min(classes_, teacher_->config.vocab_size);
    return;
  }
  captured_ = std::make_unique<CapturedLogprobs>(config_.logprobs);
  const CaptureInfo& info = captured_->info();
  INGOT_CHECK(info.data == data.train->fingerprint(),
              InvalidConfig("kd_logprobs",
                            fmt::format("{} was captured of other data, or with another tokenizer, template, "
                                        "sequence_len or packing; capture it again with this configuration",
                                        config_.logprobs)));
  INGOT_CHECK(
      info.classes <= classes_,
      InvalidConfig("kd_logprobs",
                    fmt::format("{} has probabilities of {} tokens, and the model's vocabulary has {}",
                                config_.logprobs, info.classes, classes_)));
  classes_ = info.classes;
}

Distillation::Distillation(const DistillationConfig& config, const LanguageModel& model,
                           std::unique_ptr<LanguageModel> teacher)
    : config_(config),
      teacher_(std::move(teacher)),
      classes_(std::min(model.config.vocab_size, teacher_->config.vocab_size)) {}

struct Distillation::Rows {
  Tensor positions;       // i32 [n], in the flattened tokens
  Tensor targets;         // i32 [n]
  Tensor mask;            // f32 [n]; 0 in padding
  Tensor teacher_hidden;  // [n, hidden of the teacher]
  CapturedLogprobs::Rows captured;
};

Distillation::Rows Distillation::rows_of(const data::Batch& batch, const DecoderInput& input,
                                         Device device) const {
  std::vector<std::int32_t> positions = target_positions(batch), targets;
  const auto* all = batch.targets.data<std::int32_t>();
  targets.reserve(positions.size());
  for (const std::int32_t position : positions) targets.push_back(all[position]);
  std::vector<float> mask(positions.size(), 1.0F);
  // Few shapes: matmul kernels are made for each.
  const std::int64_t count = rounded_to_64(std::ssize(positions));
  const auto sent = [&](auto& values, auto padding) {
    values.resize(static_cast<std::size_t>(count), padding);
    return to(Tensor::from(values, {count}), device);
  };
  Rows rows{.positions = sent(positions, 0),
            .targets = sent(targets, data::kNoTarget),
            .mask = sent(mask, 0.0F),
            .teacher_hidden = {},
            .captured = {}};
  if (captured_ != nullptr) {
    rows.captured = captured_->of(batch, count, device);
    return rows;
  }
  rows.teacher_hidden = teacher_states(*teacher_, input, rows.positions);
  return rows;
}

// The losses of some tokens, added up; `states` are the model's.
Tensor Distillation::sum_of_chunk(const LanguageModel& model, const Rows& rows, std::int64_t begin,
                                  const Tensor& states, float z_loss) const {
  const std::int64_t count = states.dim(0);
  const auto part = [&](const Tensor& all) { return narrow(all, 0, begin, count); };
  const Tensor whole = model.logits(states), logits = first_classes(whole, classes_);
  Tensor losses;
  if (config_.alpha > 0) {
    if (captured_ != nullptr) {
      losses = top_k_divergence(logits, part(rows.captured.indices), part(rows.captured.log_probs),
                                config_.temperature);
    } else {
      const Tensor teacher = teacher_logits(*teacher_, part(rows.teacher_hidden), classes_);
      losses = distillation_divergence(logits, teacher, config_.beta, config_.temperature);
    }
    losses = losses * part(rows.mask) * (config_.alpha * config_.temperature * config_.temperature);
  }
  if (config_.ce_alpha > 0) {
    CrossEntropyLoss each;
    each.reduction = Reduction::none;
    each.z_loss = z_loss;
    const Tensor hard = cross_entropy(whole, part(rows.targets), each) * config_.ce_alpha;
    losses = losses.defined() ? losses + hard : hard;
  }
  return sum(losses);
}

Tensor Distillation::loss(const LanguageModel& model, const data::Batch& batch, const DecoderInput& input,
                          const LossOptions& options) const {
  const Rows rows = rows_of(batch, input, model.device());
  std::vector<RouterLoad> loads;
  const Tensor states =
      picked_states(model.hidden(input, options.asks_routers() ? &loads : nullptr), rows.positions);
  const std::int64_t count = states.dim(0),
                     chunk = distilled_at_once(count, model.config.vocab_size, model.device());
  Tensor total;
  for (std::int64_t begin = 0; begin < count; begin += chunk) {
    const auto of_chunk = [this, &model, rows, begin, z_loss = options.z_loss](const Tensor& x) {
      return sum_of_chunk(model, rows, begin, x, z_loss);
    };
    const Tensor part = narrow(states, 0, begin, std::min(chunk, count - begin));
    const Tensor loss = chunk < count && grad_enabled() ? checkpoint(of_chunk, part) : of_chunk(part);
    total = total.defined() ? total + loss : loss;
  }
  total = total / (options.denominator.defined() ? options.denominator : sum(rows.mask));
  return with_router_losses(total, loads, input.tokens.numel(), options);
}

}  // namespace ingot
