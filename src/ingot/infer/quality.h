#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ingot/infer/perplexity.h"
#include "ingot/quant/matrix_format.h"

namespace ingot::infer {

/// How far a model's predictions are from another's, over the tokens of a text.
struct Divergence {
  Perplexity text;      ///< how well it predicts the text itself
  double kl = 0;        ///< mean over the tokens of Σ p·log(p / q), in nats: p the other model, q this one
  double same_top = 0;  ///< share of the tokens for which both think the same most probable
};

/// What a format costs a model.
struct FormatQuality {
  std::string format;
  std::string refusal;         ///< why this model cannot have it; the rest is 0 then
  double bits_per_weight = 0;  ///< of the matrices, scales counted
  double weight_error = 0;     ///< √(Σ(w − rounded)² / Σw²) over all matrices
  Divergence weights;          ///< with rounded weights and exact (f32) activations
  Divergence as_run;           ///< as the format runs: int8 formats round activations too
  quant::StandIns stand_ins;   ///< the matrices that cannot have it, and what they have
};

/// Compares formats with a model as it is stored, in f32, over one text. Holds the model, and one copy of it
/// in a format, in memory.
class QualityReport {
 public:
  /// Opens the model and runs it over the text. Throws as load_model and measure_perplexity do.
  QualityReport(std::string path, std::vector<std::int32_t> tokens, const PerplexityOptions& options,
                const std::function<void(std::int64_t)>& on_progress = {});
  ~QualityReport();
  const Perplexity& reference() const { return reference_; }
  FormatQuality measure(const std::string& format) const;
  /// Of a quantized copy of the model, a file or a directory, in a row of this name. Throws InvalidConfig for
  /// a model of other weights.
  FormatQuality measure_written(const std::string& path, const std::string& name) const;

 private:
  Divergence compare(const LanguageModel& candidate) const;
  double weight_error(LanguageModel& rounded) const;
  void check_same_model(LanguageModel& copy, const std::string& path) const;
  using OpenModel = std::function<std::unique_ptr<LanguageModel>()>;
  void compare_both(const OpenModel& open_rounded, const OpenModel& open_packed,
                    FormatQuality& quality) const;

  std::string path_;
  std::vector<std::int32_t> tokens_;
  PerplexityOptions options_;
  std::unique_ptr<LanguageModel> model_;
  std::vector<Tensor> states_;  // the model's own, window by window
  Perplexity reference_;
};

}  // namespace ingot::infer
