#pragma once

#include <memory>

#include "ingot/models/forecast/config.h"
#include "ingot/nn/linear.h"

namespace ingot {

/// What stands instead of attention in Autoformer and FEDformer: it mixes the steps of series.
class SeriesMixer {
 public:
  /// Which of its arguments a mixer reads; the others stay undefined, and their projections get no gradient.
  struct Reads {
    bool query = true, key = true, value = true;
  };

  SeriesMixer() = default;
  virtual ~SeriesMixer() = default;
  SeriesMixer(const SeriesMixer&) = delete;
  SeriesMixer& operator=(const SeriesMixer&) = delete;

  virtual Reads reads() const = 0;
  /// query: [B, length, d_model]; key, value: [B, other length, d_model]. Returns [B, length, d_model].
  virtual Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                            bool training) const = 0;
  virtual void visit(ParamVisitor&) {}
};

/// A mixer between projections, as attention has them. Layers may share one mixer: it is then seen under the
/// first one's name.
struct MixingLayer {
  MixingLayer(const ParamSource& source, std::int64_t d_model, std::shared_ptr<SeriesMixer> mixer);
  /// x: [B, length, d_model] asks; other: [B, other length, d_model] is asked.
  Tensor operator()(const Tensor& x, const Tensor& other, bool training) const;
  void visit(ParamVisitor& v);

  std::shared_ptr<SeriesMixer> mixer;
  Linear query, key, value, out;
};

/// Autoformer's auto-correlation (Wu et al. 2021): series are averaged with themselves at the delays where
/// query and key correlate most, found through the Fourier transform. The published code finds one set of
/// delays for a whole batch while training and one for each window otherwise; with `per_window` it is always
/// the latter.
class AutoCorrelation final : public SeriesMixer {
 public:
  /// factor · ln(length) delays.
  AutoCorrelation(double factor, bool per_window) : factor_(factor), per_window_(per_window) {}
  Reads reads() const override { return {}; }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    bool training) const override;

 private:
  double factor_;
  bool per_window_;
};

/// x: [B, n, ...] cut to `length` steps, or with zeros after its own.
Tensor fit_length(const Tensor& x, std::int64_t length);

}  // namespace ingot
