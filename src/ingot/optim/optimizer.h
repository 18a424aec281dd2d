#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/nn/parameter.h"
#include "ingot/optim/offload.h"

namespace ingot {

/// Parameters that are stepped alike.
struct ParamGroup {
  std::vector<Parameter*> parameters;
  double lr_multiplier = 1;            ///< of the optimizer's learning rate
  std::optional<double> weight_decay;  ///< default: the optimizer's
  void validate() const;
};

struct StepOptions {
  /// Of the learning rate: a schedule's value at this step.
  double lr_scale = 1;
  /// One f32 on the parameters' device that gradients are multiplied by on the way (the factor of
  /// clip_by_global_norm, the inverse of a loss scale); undefined for 1.
  Tensor grad_scale = {};
  /// Only these, of which the rest is stepped apart; empty: all.
  std::span<Parameter* const> only = {};
};

/// Changes parameters by their gradients. Parameters without a gradient are left alone, with their state, as
/// are those that do not train. Weight decay skips parameters whose `decay` is false (norms, biases). State
/// of a parameter in a half type includes its f32 master weight, for bf16 as the 16 bits that the parameter
/// lacks (kernels/master_weight.h); state is made at the first step with a gradient.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Keeps the state elsewhere between steps, and takes gradients of the host; before the first of them, and
  /// before load_state(). Throws Error where there is state already.
  void offload(OffloadConfig config);
  void step(const StepOptions& options = {});
  void zero_grad();
  const std::vector<ParamGroup>& groups() const { return groups_; }
  double learning_rate() const { return lr_; }
  void set_learning_rate(double lr);

  /// Everything that a checkpoint must hold for the next step to have the same bits, by name
  /// ("layers.0.weight.exp_avg"). The tensors share the optimizer's memory; those of offloaded state are the
  /// host's, and the next step changes them.
  std::map<std::string, Tensor> state() const;
  /// Copies such tensors in. The parameters are those of that step already. Throws Error that lists the first
  /// of what does not belong, or has another shape or dtype.
  void load_state(const std::map<std::string, Tensor>& state);
  /// Bytes of state for all trainable parameters, whether it stands already or not.
  std::size_t state_bytes() const;

 protected:
  /// The state of one parameter. Which of the tensors exist is the optimizer's choice.
  struct Slot {
    Parameter* parameter = nullptr;
    double lr = 1, weight_decay = 0;  ///< a multiplier; the value where decay applies, else 0
    std::int64_t steps = 0;
    Tensor master;                ///< of half precision: kernels::master_dtype
    std::vector<Tensor> buffers;  ///< as buffers() lists them
  };
  /// A tensor that the optimizer keeps for a parameter, zero at first.
  struct Buffer {
    const char* name;
    Shape shape;
    DType dtype;
  };

  Optimizer(std::vector<ParamGroup> groups, double lr, double weight_decay, bool master_weights);
  /// Of one parameter, always the same.
  virtual std::vector<Buffer> buffers(const Parameter& parameter) const = 0;
  /// Whether each element of the parameter is stepped by itself, so that its state may come in parts.
  virtual bool is_divisible(const Parameter&) const { return true; }
  /// Steps the pieces, whose values have one dtype, and whose state is on their device.
  virtual void step_pieces(std::span<const OptimizerPiece> pieces, double lr, const View& grad_scale) = 0;

 private:
  bool keeps_state_elsewhere() const;
  std::size_t moved_bytes(const OffloadConfig& config) const;
  Tensor zeros(const Shape& shape, DType dtype, Device device) const;
  void make_state(Slot& slot) const;
  OptimizerPiece piece_of(const Slot& slot) const;

  std::vector<ParamGroup> groups_;
  double lr_;
  bool master_weights_;
  std::vector<Slot> slots_;
  std::unique_ptr<OffloadedState> offloaded_;  // null: state and gradients are beside the parameters
};

/// PyTorch's defaults. With `moments` u8 these are codes of 8 bits with a scale for each 256 (Dettmers et al.
/// 2021, kernels/quant_map_8bit.h), which is a quarter of the memory; embeddings, whose rows have gradients
/// of very different sizes, and parameters with fewer than kLeastQuantized elements keep moments in f32.
struct AdamWConfig {
  static constexpr std::int64_t kLeastQuantized = 4096;

  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool master_weights = true;  ///< parameters in half precision keep what f32 has more
  DType moments = DType::f32;  ///< or u8
  void validate() const;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019). State: exp_avg, exp_avg_sq and, of moments
/// in u8, exp_avg_scale, exp_avg_sq_scale.
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<Parameter*> parameters, const AdamWConfig& config);
  AdamW(std::vector<ParamGroup> groups, const AdamWConfig& config);

 protected:
  AdamW(std::vector<ParamGroup> groups, const AdamWConfig& config, bool decoupled);
  std::vector<Buffer> buffers(const Parameter& parameter) const override;
  void step_pieces(std::span<const OptimizerPiece> pieces, double lr, const View& grad_scale) override;

 private:
  AdamWConfig config_;
  bool decoupled_;
};

/// Adam (Kingma and Ba 2015); weight decay is added to the gradient, and 0 by default.
struct AdamConfig {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool master_weights = true;
  void validate() const;
};

class Adam final : public AdamW {
 public:
  Adam(std::vector<Parameter*> parameters, const AdamConfig& config);
  Adam(std::vector<ParamGroup> groups, const AdamConfig& config);
};

struct SgdConfig {
  double learning_rate = 1e-2;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;  ///< needs momentum, and no dampening
  double weight_decay = 0;
  bool master_weights = true;
  void validate() const;
};

/// Stochastic gradient descent, PyTorch's form. State: momentum_buffer, with momentum.
class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<Parameter*> parameters, const SgdConfig& config);
  Sgd(std::vector<ParamGroup> groups, const SgdConfig& config);

 protected:
  std::vector<Buffer> buffers(const Parameter& parameter) const override;
  void step_pieces(std::span<const OptimizerPiece> pieces, double lr, const View& grad_scale) override;

 private:
  SgdConfig config_;
};

}  // namespace ingot
