#pragma once

#include <cstdint>
#include <vector>

#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"

namespace ingot {

// What Autoformer and FEDformer are made of, over series x: [B, length, width].

/// A series' trend is its moving average, the ends repeated (Wu et al. 2021). With several windows, every
/// value chooses how much of each average it takes (Zhou et al. 2022); parameters layer.{weight [n, 1], bias
/// [n]}.
struct SeriesTrend {
  SeriesTrend(const ParamSource& source, std::vector<std::int64_t> windows);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  std::vector<std::int64_t> windows;
  Parameter weight, bias;  // absent for one window: its share is 1
};

/// A layer norm less its mean over the steps.
struct SeasonalNorm {
  SeasonalNorm(const ParamSource& source, std::int64_t width);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  LayerNorm norm;
};

/// A convolution over three steps of a series that is closed to a circle, without bias. Parameter: weight
/// [out, in, 3].
struct CircularConv {
  CircularConv(const ParamSource& source, std::int64_t in, std::int64_t out, const Init& init);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Parameter weight;
};

}  // namespace ingot
