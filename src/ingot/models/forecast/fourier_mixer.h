#pragma once

#include <string>
#include <vector>

#include "ingot/models/forecast/series_mixer.h"

namespace ingot {

// FEDformer's Fourier variant (Zhou et al. 2022). With `follow_paper` the blocks do what the paper says.
// Without, they do what the published code does, which made the published numbers: results are laid out
// [width, length] and read as [length, width]; FourierMixer writes its frequencies one after another from 0
// on, wherever they came from; FourierCross takes keys for values.

/// The frequencies that are kept of a series of `length` steps: the lowest `modes` below length / 2, or as
/// many drawn at random with config.mode_seed, in ascending order. `place` sets apart the draws of one
/// network.
std::vector<std::int64_t> choose_modes(const ForecastModelConfig& config, std::int64_t length,
                                       std::uint64_t place);

/// Such frequencies of series on a device.
class KeptModes {
 public:
  KeptModes(const std::vector<std::int64_t>& modes, Device device);
  /// x [B, length, d] at these frequencies, by heads: [2, B, modes, heads, d / heads].
  Tensor take(const Tensor& x, std::int64_t heads) const;
  /// The series [B, length, d] whose spectrum has z's frequencies, [2, B, modes, d], here and nothing
  /// elsewhere.
  Tensor to_series(const Tensor& z, std::int64_t length) const;

 private:
  std::int64_t end_;  // one more than the highest
  Tensor modes_;      // [modes], i64; undefined where they are the lowest
  Tensor places_;     // [end]: which of the modes each frequency is; their count where none
};

/// Softmax (of amplitudes) or tanh attention between frequencies: query [2, B, G, M, E], key and value [2, B,
/// G, N, E]; returns [2, B, G, M, E]. `activation`: "tanh" or "softmax".
Tensor attend_spectra(const Tensor& query, const Tensor& key, const Tensor& value,
                      const std::string& activation);

/// Frequency-enhanced block: every kept frequency is multiplied with a matrix of its own, for each head.
/// Parameter: weights1 [2, modes, heads, in, out], complex.
class FourierMixer final : public SeriesMixer {
 public:
  FourierMixer(const ParamSource& source, const ForecastModelConfig& config, std::int64_t length,
               std::uint64_t place);
  Reads reads() const override { return {.query = true, .key = false, .value = false}; }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    bool training) const override;
  void visit(ParamVisitor& v) override;

 private:
  std::int64_t heads_;
  bool follow_paper_;
  Parameter weights_;
  KeptModes modes_;
};

/// Frequency-enhanced attention: attention between frequencies of query and key, then as FourierMixer.
class FourierCross final : public SeriesMixer {
 public:
  FourierCross(const ParamSource& source, const ForecastModelConfig& config, std::int64_t query_length,
               std::int64_t key_length, std::uint64_t place);
  Reads reads() const override { return {.query = true, .key = true, .value = follow_paper_}; }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    bool training) const override;
  void visit(ParamVisitor& v) override;

 private:
  std::int64_t heads_;
  bool follow_paper_;
  std::string activation_;
  Parameter weights_;
  KeptModes query_modes_, key_modes_;
};

}  // namespace ingot
