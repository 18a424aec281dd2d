#pragma once

#include <cstdint>
#include <variant>

#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// Initial values of weights, with PyTorch's (torch.nn.init) meaning. A weight is [out, in, kernel...]:
/// fan_in = in * kernel, fan_out = out * kernel.
namespace init {

enum class Distribution : std::uint8_t { uniform, normal };
enum class FanMode : std::uint8_t { fan_in, fan_out };

struct Constant {
  double value = 0;
};
struct Normal {
  double mean = 0;
  double std = 1;
};
/// Uniform in [low, high).
struct Uniform {
  double low = 0;
  double high = 1;
};
/// Normal, cut to [low, high]: absolute limits, not multiples of std.
struct TruncatedNormal {
  double mean = 0;
  double std = 1;
  double low = -2;
  double high = 2;
};
/// Standard deviation gain * sqrt(2 / (fan_in + fan_out))   (Glorot and Bengio 2010).
struct Xavier {
  Distribution distribution = Distribution::uniform;
  double gain = 1;
};
/// Standard deviation gain / sqrt(fan)   (He et al. 2015). The default gain is that of ReLU.
struct Kaiming {
  Distribution distribution = Distribution::uniform;
  FanMode mode = FanMode::fan_in;
  double gain = 1.4142135623730951;
};
/// Rows (or columns, where there are fewer) orthonormal, times gain; axes after the first are taken as one
/// (Saxe et al. 2013).
struct Orthogonal {
  double gain = 1;
};

/// Uniform in ±1/sqrt(fan_in): what PyTorch gives its linear and convolution layers.
Uniform fan_in_uniform(std::int64_t fan_in);

inline constexpr Constant kZeros{0};
inline constexpr Constant kOnes{1};

enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// The gain that keeps the variance through a nonlinearity; `slope` is leaky_relu's.
double gain(Nonlinearity nonlinearity, double slope = 0.01);

}  // namespace init

using Init = std::variant<init::Constant, init::Normal, init::Uniform, init::TruncatedNormal, init::Xavier,
                          init::Kaiming, init::Orthogonal>;

/// Throws InvalidConfig for a negative or non-finite scale, or an empty interval.
void validate(const Init& init);

struct Fans {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
/// Throws DimensionMismatch for fewer than two axes.
Fans fans(const Shape& shape);

/// Overwrites a contiguous floating tensor. Element i depends on the key and i alone, is computed in f32 and
/// rounded to the tensor's dtype, whatever the number of threads (Orthogonal works on the whole, in f64).
void fill_(const Tensor& tensor, const Init& init, RngKey key);

}  // namespace ingot
