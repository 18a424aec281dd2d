#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/nn/param_source.h"

namespace ingot {

/// What one rank has of a parameter.
struct ParamPart {
  Shape whole;                      ///< of the parameter
  int axis = -1;                    ///< that is split; -1: none is, the rank has all of it
  std::int64_t begin = 0, end = 0;  ///< [begin, end) of that axis
  bool is_zero = false;             ///< a bias of which another rank has the values, where results are summed
};

/// How the parameters of a model are split among ranks.
class ParamSplit {
 public:
  virtual ~ParamSplit() = default;
  /// `own`: the shape that the rank's part of the model asks for.
  virtual ParamPart part(const std::string& name, const Shape& own) const = 0;
  virtual WeightSplit split(const std::string& name) const = 0;
};

/// The parameters of one rank: asks `whole`, which has the model's, and keeps its part. Matrices that are
/// quantized are cut in their tiles, with the same values; InvalidConfig where that cannot be.
class SplitSource final : public ParamProvider {
 public:
  /// Both have to outlive it.
  SplitSource(ParamProvider& whole, const ParamSplit& split) : whole_(whole), split_(split) {}

  Tensor provide(const ParamRequest& request) override;
  quant::PackedPtr provide_quantized(const std::string& name, const Shape& shape) override;
  std::vector<quant::PackedPtr> provide_quantized_stack(const std::string& name, const Shape& shape) override;
  bool trainable() const override { return whole_.trainable(); }
  WeightSplit split(const std::string& name) override { return split_.split(name); }

 private:
  ParamProvider& whole_;
  const ParamSplit& split_;
};

}  // namespace ingot
