#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// Alternating updates (Baykal et al. 2023, arXiv:2301.13310): a token has several streams, of which a layer
/// computes one, and predicts and corrects the others.
struct AltUp {
  AltUp(const ParamSource& source, const LanguageConfig& config);
  /// streams [batch, sequence, streams, hidden]: each plus a mixture of all, whose weights follow from the
  /// active one.
  Tensor predict(const Tensor& streams) const;
  /// By how far what the layer made, [batch, sequence, hidden], is from the active prediction.
  Tensor correct(const Tensor& predictions, const Tensor& made) const;
  /// Of [batch, sequence, streams, hidden] the one that the layer computes.
  Tensor active(const Tensor& streams) const;
  /// The active one of corrected streams, times a factor of each element where the family has it.
  Tensor output(const Tensor& corrected) const;
  void visit(ParamVisitor& v);

  Linear correction_coefs, prediction_coefs, modality_router;
  RmsNorm router_norm;
  Parameter correct_output_scale;  ///< [hidden]
  std::int64_t streams, index;
  bool scales;

 private:
  Tensor modalities(const Tensor& x) const;
};

/// Learned augmented residual layer (Menghani et al. 2024, arXiv:2411.07501): x plus a normalized matrix of
/// low rank times x.
struct Laurel {
  Laurel(const ParamSource& source, const LanguageConfig& config);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Linear linear_left, linear_right;
  RmsNorm post_laurel_norm;
};

/// What makes streams of an embedding, and one vector of the streams behind the last layer. A model holds
/// them side by side: [batch, sequence, streams · hidden].
struct Streams {
  Streams(const ParamSource& source, const LanguageConfig& config);
  Tensor spread(const Tensor& x) const;
  Tensor merged(const Tensor& streams) const;
  void visit(ParamVisitor& v);

  std::vector<std::unique_ptr<Linear>> altup_projections, altup_unembed_projections;
  std::int64_t hidden;
};

}  // namespace ingot
