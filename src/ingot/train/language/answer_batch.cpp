#include "ingot/train/language/answer_batch.h"

#include <algorithm>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/data/packing.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

template <class T>
Tensor sent(const std::vector<T>& values, const Shape& shape, Device device) {
  return to(Tensor::from(values, shape), device);
}

// Few shapes: matmul kernels are made for each.
constexpr std::int64_t kMultiple = 64;
std::int64_t rounded_up(std::int64_t count) { return (count + kMultiple - 1) / kMultiple * kMultiple; }

}  // namespace

AnswerBatch make_answer_batch(std::span<const data::PromptedAnswer* const> answers, std::int32_t pad_id,
                              std::int64_t most, Device device) {
  AnswerBatch batch;
  const auto rows = static_cast<std::int64_t>(answers.size());
  const auto end_of = [&](const data::PromptedAnswer& row) { return std::min(row.size(), most); };
  for (const data::PromptedAnswer* row : answers) {
    batch.length = std::max(batch.length, end_of(*row));
    batch.longest = std::max(batch.longest, end_of(*row) - row->prompt);
  }
  batch.length = std::max(batch.length, std::min(rounded_up(batch.length), most));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows * batch.length), pad_id),
      all_targets(tokens.size(), data::kNoTarget), predicting, targets,
      slots(static_cast<std::size_t>(rows * batch.longest));
  std::vector<float> mask(slots.size()), lengths;
  lengths.reserve(answers.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    const data::PromptedAnswer& row = *answers[static_cast<std::size_t>(r)];
    const std::int64_t end = end_of(row);
    for (std::int64_t i = 0; i < end; ++i) {
      const auto at = static_cast<std::size_t>(r * batch.length + i);
      tokens[at] = row.tokens[static_cast<std::size_t>(i)];
      if (i > 0) all_targets[at - 1] = tokens[at];
      if (i < row.prompt) continue;
      const auto slot = static_cast<std::size_t>(r * batch.longest + i - row.prompt);
      slots[slot] = static_cast<std::int32_t>(targets.size());
      mask[slot] = 1;
      predicting.push_back(static_cast<std::int32_t>(at) - 1);
      targets.push_back(tokens[at]);
    }
    lengths.push_back(static_cast<float>(end - row.prompt));
  }
  targets.resize(static_cast<std::size_t>(rounded_up(std::ssize(targets))), data::kNoTarget);
  predicting.resize(targets.size());
  batch.answer_tokens = std::ssize(targets);
  batch.tokens = sent(tokens, {rows, batch.length}, device);
  batch.all_targets = sent(all_targets, {rows, batch.length}, device);
  batch.predicting = sent(predicting, {batch.answer_tokens}, device);
  batch.targets = sent(targets, {batch.answer_tokens}, device);
  batch.slots = sent(slots, {rows * batch.longest}, device);
  batch.mask = sent(mask, {rows, batch.longest}, device);
  batch.lengths = sent(lengths, {rows}, device);
  return batch;
}

Tensor hidden_of(const LanguageModel& model, const AnswerBatch& batch) {
  return model.hidden({.tokens = batch.tokens, .length = batch.length});
}

Tensor answer_log_probs(const LanguageModel& model, const Tensor& hidden, const AnswerBatch& batch,
                        double temperature) {
  const Tensor states = index_select_within(reshape(hidden, {batch.rows() * batch.length, hidden.dim(-1)}), 0,
                                            batch.predicting);
  const std::int64_t chunk = linear_cross_entropy_chunk(batch.answer_tokens, model.config.vocab_size,
                                                        DType::f32, logits_budget(model.device()));
  std::vector<Tensor> parts;
  for (std::int64_t begin = 0; begin < batch.answer_tokens; begin += chunk) {
    const std::int64_t count = std::min(chunk, batch.answer_tokens - begin);
    const Tensor targets = narrow(batch.targets, 0, begin, count);
    const auto negative = [&model, targets, temperature](const Tensor& x) {
      CrossEntropyLoss each;
      each.reduction = Reduction::none;
      const Tensor logits = model.logits(x);
      return cross_entropy(temperature == 1 ? logits : logits / temperature, targets, each);
    };
    const Tensor part = narrow(states, 0, begin, count);
    parts.push_back(chunk < batch.answer_tokens && grad_enabled() ? checkpoint(negative, part)
                                                                  : negative(part));
  }
  const Tensor all = parts.size() == 1 ? parts.front() : concat(parts);
  const Tensor laid = reshape(index_select_within(all, 0, batch.slots), {batch.rows(), batch.longest});
  return -(laid * batch.mask);
}

}  // namespace ingot
