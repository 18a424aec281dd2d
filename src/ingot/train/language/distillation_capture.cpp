#include "ingot/train/language/distillation_capture.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/topk.h"
#include "ingot/ops/view.h"
#include "ingot/train/language/dataset.h"
#include "ingot/train/language/device_batches.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/teacher.h"

namespace ingot {
namespace {

// Of all targets of a batch, in order.
struct TopTokens {
  std::vector<std::int32_t> indices;
  std::vector<float> log_probs;
};

TopTokens top_tokens_of(const LanguageModel& teacher, const DecoderInput& input, const data::Batch& batch,
                        const CaptureInfo& info) {
  TopTokens result;
  const std::int64_t all = batch.valid_targets;
  if (all == 0) return result;
  const NoGrad no_grad;
  const Tensor positions = to(Tensor::from(target_positions(batch), {all}), teacher.device());
  const Tensor states = teacher_states(teacher, input, positions);
  const std::int64_t chunk = distilled_at_once(all, teacher.config.vocab_size, teacher.device());
  for (std::int64_t begin = 0; begin < all; begin += chunk) {
    const Tensor part = narrow(states, 0, begin, std::min(chunk, all - begin));
    const TopK best = topk(log_softmax(teacher_logits(teacher, part, info.classes)), info.top_k);
    for (const std::int64_t index : to(best.indices, kCpu).to_vector<std::int64_t>())
      result.indices.push_back(static_cast<std::int32_t>(index));
    const auto values = to(best.values, kCpu).to_vector<float>();
    result.log_probs.insert(result.log_probs.end(), values.begin(), values.end());
  }
  return result;
}

void write_rows(LogprobsWriter& writer, const data::Batch& batch, const TopTokens& top, std::int64_t top_k) {
  std::size_t first = 0;
  for (std::int64_t row = 0; row < batch.rows(); ++row) {
    const auto count = static_cast<std::size_t>(targets_of_row(batch, row) * top_k);
    if (count > 0)
      writer.add(sequence_key(batch, row), std::span(top.indices).subspan(first, count),
                 std::span(top.log_probs).subspan(first, count));
    first += count;
  }
}

}  // namespace

CaptureInfo capture_logprobs(const TrainConfig& config, const std::string& directory, std::int64_t top_k,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::string& path = config.distillation.teacher;
  INGOT_CHECK(!path.empty(),
              InvalidConfig("kd_teacher", "is missing: name the model whose probabilities are captured"));
  check_data_paths(config);
  const text::Tokenizer tokenizer = run_tokenizer(config);
  const TrainingData data = prepare_data(config, tokenizer);
  const auto teacher =
      load_teacher(path, tokenizer, data.max_token(), config.dtype, config.training_device());
  const CaptureInfo info{
      .top_k = top_k,
      .classes = std::min(teacher->config.vocab_size, planned_architecture(config).vocab_size),
      .teacher = path,
      .data = data.train->fingerprint()};
  INGOT_CHECK(
      top_k >= 1 && top_k <= info.classes,
      InvalidConfig("top_k", fmt::format("must be between 1 and the {} tokens of the vocabulary, got {}",
                                         info.classes, top_k)));
  LogprobsWriter writer(directory, info);
  const std::int64_t rows = config.per_device_train_batch_size;
  data::DataLoader batches(data.train, {.batch_size = rows,
                                        .seed = config.seed,
                                        .shuffle = false,
                                        .repeat = false,
                                        .document_mask = config.document_mask,
                                        .trim_padding = true});
  DeviceBatches sent(1, rows, config.sequence_len, teacher->device());
  std::int64_t done = 0;
  while (const std::optional<data::Batch> batch = batches.next()) {
    sent.send(std::span(&*batch, 1));
    write_rows(writer, *batch, top_tokens_of(*teacher, sent.input(0), *batch, info), top_k);
    done += batch->rows();
    if (progress) progress(done, data.train->size());
  }
  return writer.finish();
}

}  // namespace ingot
