#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ingot/models/forecast/multiwavelet.h"
#include "ingot/models/forecast/series_mixer.h"

namespace ingot {

// FEDformer's wavelet variant (Zhou et al. 2022), after Gupta et al. 2021: series of multiwavelet
// coefficients, [B, n, channels, order], are taken apart level by level, each level is changed in the
// frequency domain, and they are put together again. Series whose length is not a power of two are continued
// with their own beginning.

/// One level's details and sums, from fine to coarse.
struct WaveletLevels {
  std::vector<Tensor> details, sums;
};

/// Analysis and synthesis; `skipped` levels, the coarsest, are not taken apart.
class WaveletTransform {
 public:
  /// For series on `device`.
  WaveletTransform(std::int64_t order, std::int64_t skipped, Device device = kCpu);
  /// x: [B, n, channels, order], n from 1 on.
  WaveletLevels take_apart(const Tensor& x) const;
  /// Sums at the coarsest level, and what each level adds to its sums and has for details, from fine to
  /// coarse; returns `length` steps.
  Tensor put_together(Tensor coarsest, const WaveletLevels& levels, std::int64_t length) const;

 private:
  MultiwaveletFilters filters_;
  std::int64_t skipped_;
};

/// A matrix for each of the lowest frequencies. Parameter: weights1 [2, modes, width, width], complex.
struct SpectralMatrix {
  SpectralMatrix(const ParamSource& source, std::int64_t modes, std::int64_t width);
  /// x: [B, n, channels, order] with channels · order = width.
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Parameter weights;
};

/// The multiwavelet block of a series with itself.
class WaveletMixer final : public SeriesMixer {
 public:
  WaveletMixer(const ParamSource& source, const ForecastModelConfig& config);
  Reads reads() const override { return {.query = false, .key = false, .value = true}; }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    bool training) const override;
  void visit(ParamVisitor& v) override;

 private:
  std::int64_t channels_, order_;
  Linear in_, out_;
  WaveletTransform transform_;
  SpectralMatrix of_details_, of_sums_, to_sums_;
  Linear coarsest_;
};

/// Attention between the frequencies of two series at every level. Half as many channels as WaveletMixer. As
/// in the published code, keys stand for values too, unless `follow_paper`.
class WaveletCross final : public SeriesMixer {
 public:
  WaveletCross(const ParamSource& source, const ForecastModelConfig& config);
  Reads reads() const override { return {.query = true, .key = true, .value = follow_paper_}; }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    bool training) const override;
  void visit(ParamVisitor& v) override;

 private:
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value) const;

  std::int64_t channels_, order_, modes_;
  double scale_;
  bool follow_paper_;
  std::string activation_;
  Linear query_, key_, value_, out_;
  WaveletTransform transform_;
};

}  // namespace ingot
