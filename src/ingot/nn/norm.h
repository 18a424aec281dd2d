#pragma once

#include <span>
#include <vector>

#include "ingot/nn/param_source.h"
#include "ingot/nn/rank_group.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/norm.h"

namespace ingot {

struct RmsNormOptions {
  std::int64_t width = 0;
  float eps = 1e-5F;
  float weight_offset = 0.0F;  ///< 1 where weights are stored minus 1, as Gemma's are
  void validate() const;
};

/// ops rms_norm over the last axis. Parameter: weight [width], starting at 1 − weight_offset.
struct RmsNorm {
  RmsNorm(const ParamSource& source, const RmsNormOptions& options);
  Tensor operator()(const Tensor& x) const;
  /// x + residual and the norm of it.
  NormedSum add(const Tensor& x, const Tensor& residual) const;
  void visit(ParamVisitor& v);

  Parameter weight;
  float eps, weight_offset;
  WeightSplit split;  ///< where ranks have the features together; it is for inference then, and has no add()
};

/// Each norm of its x, of norms whose features ranks have together: one message for all.
std::vector<Tensor> rms_norms_of_ranks(std::span<const RmsNorm* const> norms, std::span<const Tensor> x);

struct LayerNormOptions {
  std::int64_t width = 0;
  float eps = 1e-5F;
  bool bias = true;
  void validate() const;
};

/// ops layer_norm over the last axis. Parameters: weight [width], starting at 1, and bias [width], at 0.
struct LayerNorm {
  LayerNorm(const ParamSource& source, const LayerNormOptions& options);
  Tensor operator()(const Tensor& x) const;
  /// x + residual and the norm of it.
  NormedSum add(const Tensor& x, const Tensor& residual) const;
  void visit(ParamVisitor& v);

  Parameter weight, bias;
  float eps;
};

}  // namespace ingot
