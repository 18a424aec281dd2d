#include "ingot/train/language/teacher.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/nn/with_values.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/index.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Of logits, their softmax, its logarithm, and gradients: what a chunk of tokens takes.
constexpr std::int64_t kCopiesOfLogits = 8;

void check_same_vocabulary(const std::string& path, const text::Tokenizer& ours,
                           const text::Tokenizer& theirs) {
  const std::int32_t size = std::min(ours.vocab_size(), theirs.vocab_size());
  std::int32_t differ = 0, first = 0;
  for (std::int32_t id = size - 1; id >= 0; --id) {
    const auto mine = ours.id_to_token(id), other = theirs.id_to_token(id);
    if (mine.empty() || other.empty() || mine == other) continue;
    ++differ;
    first = id;
  }
  INGOT_CHECK(differ == 0,
              InvalidConfig("kd_teacher",
                            fmt::format("{} has another vocabulary than the model: {} of {} tokens differ, "
                                        "first {}, which is '{}' there and '{}' here; a teacher has to read "
                                        "the model's tokens",
                                        path, differ, size, first, theirs.id_to_token(first),
                                        ours.id_to_token(first))));
}

}  // namespace

std::unique_ptr<LanguageModel> load_teacher(const std::string& path, const text::Tokenizer& tokenizer,
                                            std::int32_t max_token, DType dtype, Device device) {
  check_same_vocabulary(path, tokenizer, open_tokenizer(path));
  const MemoryTagScope tag(MemoryTag::parameter);
  auto teacher = load_language_model(
      path, {.dtype = dtype, .device = device, .trainable = false, .keep_quantized = true});
  INGOT_CHECK(teacher->config.vocab_size > max_token,
              InvalidConfig("kd_teacher", fmt::format("{} knows {} tokens, and the data has token {}", path,
                                                      teacher->config.vocab_size, max_token)));
  return teacher;
}

std::size_t teacher_bytes(const DistillationConfig& config, DType dtype) {
  if (config.teacher.empty()) return 0;
  const ModelCheckpoint checkpoint = open_checkpoint(config.teacher);
  const LanguageConfig model = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  std::uint64_t stored = 0;
  for (const TensorInfo& info : checkpoint.weights->tensors()) stored += info.bytes;
  const auto dense = static_cast<std::size_t>(model.parameter_count()) * byte_size(dtype);
  return std::min<std::size_t>(stored, dense);
}

Tensor picked_states(const Tensor& hidden, const Tensor& positions) {
  const std::int64_t width = hidden.dim(-1);
  return index_select_within(reshape(hidden, {hidden.numel() / width, width}), 0, positions);
}

Tensor first_classes(const Tensor& logits, std::int64_t classes) {
  const Tensor all = to(logits, DType::f32);
  return classes == all.dim(-1) ? all : narrow(all, 1, 0, classes);
}

std::int64_t distilled_at_once(std::int64_t tokens, std::int64_t classes, Device device) {
  return linear_cross_entropy_chunk(tokens, classes, DType::f32, logits_budget(device) / kCopiesOfLogits);
}

Tensor teacher_states(const LanguageModel& teacher, const DecoderInput& input, const Tensor& positions) {
  const NoGrad no_grad;
  const WithValues with_values;
  return picked_states(teacher.hidden(input), positions);
}

Tensor teacher_logits(const LanguageModel& teacher, const Tensor& states, std::int64_t classes) {
  const NoGrad no_grad;
  const WithValues with_values;
  return first_classes(teacher.logits(states), classes);
}

}  // namespace ingot
