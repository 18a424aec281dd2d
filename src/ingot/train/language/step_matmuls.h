#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/models/language/config.h"

namespace ingot {

/// A matmul of a training step: one of the three that a weight [out, in] has a part in.
struct StepMatmul {
  enum class Kind : std::uint8_t {
    forward,         ///< y = x·wᵀ: [rows, in] by [in, out]
    input_gradient,  ///< dx = dy·w: [rows, out] by [out, in]
    weight_gradient  ///< dw = dyᵀ·x: [out, rows] by [rows, in]
  };
  Kind kind = Kind::forward;
  std::int64_t rows = 0, out = 0, in = 0;
  bool bias = false;        ///< added to y, or its gradient summed beside dw
  bool gelu = false;        ///< y goes through GELU, or dx through its gradient, before it is written
  bool accumulate = false;  ///< onto what is there
  std::int64_t count = 0;   ///< of such matmuls in a step
  std::vector<std::string> weights;  ///< whose they are: "k_proj", "v_proj"

  // [m, k] by [k, n].
  std::int64_t m() const { return kind == Kind::weight_gradient ? out : rows; }
  std::int64_t n() const { return kind == Kind::forward ? out : in; }
  std::int64_t k() const { return kind == Kind::forward ? in : kind == Kind::input_gradient ? out : rows; }
  /// 2·m·n·k
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(out) * static_cast<double>(in);
  }
};

/// The matmuls with weights of a step on one batch of `tokens`, in the step's own shapes, order and
/// kernels, and nothing else of it: no attention, norms, activations beside matmuls, losses, optimizer. A
/// batch whose step has others before it: gradients of weights are added to. The head's matmuls have the
/// rows at a time and the classes of zeros that linear_cross_entropy takes, which count as work.
///
/// Layers share one set of operands for each shape, so these take far less memory than the step, and small
/// weights may stay in a cache. Operands are normal with the deviations that they have in training, because
/// the power that a GPU draws, and so its clock, depends on the bits.
class StepMatmuls {
 public:
  /// Of a step without recomputation, in config.dtype. Runs each matmul twice, so that libraries have chosen
  /// their kernels. Throws InvalidConfig where `tokens` is not
  /// positive, NotImplemented for mixtures of experts, OutOfMemory.
  StepMatmuls(LanguageConfig config, std::int64_t tokens, Device device);

  /// Those that differ, in the order in which a step comes to them first.
  const std::vector<StepMatmul>& matmuls() const { return matmuls_; }
  double flops() const { return flops_; }
  /// Puts all of a step into the device's current stream, once.
  void run() const;

  /// A piece of sustained work.
  struct Sample {
    double begin = 0, end = 0;  ///< seconds since the first matmul began, by the device's clock
    double flops = 0;
    std::int64_t steps = 0;  ///< how many whole steps had been done at its end
    bool whole = false;      ///< it ends with the last matmul of a step
  };
  /// Repeats the step back to back for `seconds`, and to the end of one, without waiting between matmuls; no
  /// more than a few samples, of some 20 ms, are in the queue. `watch` is called on the host when it learns
  /// of a sample's end, for all but the last few: later ones run meanwhile, so it may take some milliseconds.
  std::vector<Sample> sustain(double seconds, FunctionRef<void(const Sample&)> watch) const;

  /// Seconds of each of matmuls(), of means over the passes through a whole step that fit `seconds`,
  /// at least one. A GPU has an event between matmuls, so times of a few microseconds are too long.
  std::vector<double> time_each(double seconds) const;

 private:
  struct Operands {
    std::int64_t rows, out, in;
    Tensor x, weight, y, dy, dx, dweight;
    Tensor bias, dbias, partials;        // with a bias
    Tensor argument, argument_backward;  // of GELU
  };
  void add(const StepMatmul& matmul);
  void make_operands(const StepMatmul& matmul);
  void launch(std::size_t index) const;
  double try_each() const;

  Device device_;
  DType dtype_;
  double flops_ = 0, flops_per_second_ = 0;
  std::uint64_t drawn_ = 0;  // streams of random numbers
  std::vector<StepMatmul> matmuls_;
  std::vector<std::size_t> order_;        // indices of matmuls_
  std::vector<Operands> operands_;        // of each shape of a weight and its rows
  std::vector<std::size_t> operands_of_;  // for each of matmuls_
};

}  // namespace ingot
