#pragma once

#include <optional>

#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/group_norm.h"

namespace ingot {

struct Conv1dModuleOptions {
  std::int64_t in = 0, out = 0, kernel = 1;
  Conv1dOptions conv;
  bool bias = true;
  std::optional<Init> weight_init =
      std::nullopt;  ///< default, as PyTorch's: uniform in +-1/sqrt(in / groups * kernel)
  void validate() const;
};

/// ops conv1d. Parameters, in PyTorch's shapes: weight [out, in / groups, kernel], bias [out].
struct Conv1d {
  Conv1d(const ParamSource& source, const Conv1dModuleOptions& options);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Parameter weight, bias;
  Conv1dOptions options;
};

struct Conv2dModuleOptions {
  std::int64_t in = 0, out = 0;
  std::array<std::int64_t, 2> kernel{1, 1};
  Conv2dOptions conv;
  bool bias = true;
  std::optional<Init> weight_init = std::nullopt;  ///< default, as PyTorch's
  std::optional<Init> bias_init = std::nullopt;    ///< the same
  void validate() const;
};

/// ops conv2d. Parameters: weight [out, in / groups, kernel height, kernel width], bias [out].
struct Conv2d {
  Conv2d(const ParamSource& source, const Conv2dModuleOptions& options);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Parameter weight, bias;
  Conv2dOptions options;
};

/// ops group_norm. Parameters: weight [channels], starting at 1, and bias [channels], starting at 0.
struct GroupNorm {
  GroupNorm(const ParamSource& source, std::int64_t channels, const GroupNormOptions& options);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Parameter weight, bias;
  GroupNormOptions options;
};

}  // namespace ingot
