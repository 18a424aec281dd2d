#pragma once

#include <cstdint>
#include <memory>

#include "ingot/data/loader.h"
#include "ingot/models/language/decoder.h"
#include "ingot/text/tokenizer.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/dataset.h"
#include "ingot/train/language/teacher_logprobs.h"

namespace ingot {

/// Learning from a teacher, which runs beside the model or whose most probable tokens were captured.
class Distillation {
 public:
  /// InvalidConfig where the teacher's vocabulary or what was captured is of something else.
  Distillation(const TrainConfig& config, const TrainingData& data, const LanguageModel& model,
               const text::Tokenizer& tokenizer);

  /// With this teacher, which has the model's vocabulary.
  Distillation(const DistillationConfig& config, const LanguageModel& model,
               std::unique_ptr<LanguageModel> teacher);

  /// The loss of a micro-batch, as LanguageModel::loss. `batch` is what `input` was made from, on the host.
  Tensor loss(const LanguageModel& model, const data::Batch& batch, const DecoderInput& input,
              const LossOptions& options) const;

 private:
  struct Rows;  // the targets of a micro-batch
  Rows rows_of(const data::Batch& batch, const DecoderInput& input, Device device) const;
  Tensor sum_of_chunk(const LanguageModel& model, const Rows& rows, std::int64_t begin, const Tensor& states,
                      float z_loss) const;

  const DistillationConfig& config_;
  std::unique_ptr<LanguageModel> teacher_;
  std::unique_ptr<CapturedLogprobs> captured_;
  std::int64_t classes_;
};

}  // namespace ingot
