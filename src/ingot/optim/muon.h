#pragma once

#include "ingot/optim/optimizer.h"

namespace ingot {

/// PyTorch's defaults for matrices; the others are AdamW's.
struct MuonConfig {
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t iterations = 5;  ///< of Newton and Schulz
  /// Updates as large as AdamW's, 0.2·sqrt(max(out, in)), so that one learning rate does for both (Liu et al.
  /// 2025); else sqrt(max(1, out / in)).
  bool match_adamw = true;
  /// NorMuon: rows of the step are divided by the root of the running mean of their squares, and the step has
  /// its norm again (Li et al. 2025).
  bool normalize_rows = false;
  double row_beta = 0.95;  ///< of that mean
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool master_weights = true;
  void validate() const;
};

/// Muon (Jordan 2024): steps matrices by their momentum made orthogonal. Embeddings, heads and whatever is no
/// matrix are stepped by AdamW. State: momentum_buffer, with normalize_rows second_momentum_buffer, or
/// AdamW's.
class Muon final : public AdamW {
 public:
  Muon(std::vector<Parameter*> parameters, const MuonConfig& config);

  /// Whether Muon itself steps the parameter.
  static bool takes(const Parameter& parameter);

 protected:
  std::vector<Buffer> buffers(const Parameter& parameter) const override;
  bool is_divisible(const Parameter& parameter) const override { return !takes(parameter); }
  void step_pieces(std::span<const OptimizerPiece> pieces, double lr, const View& grad_scale) override;

 private:
  void step_matrix(const OptimizerPiece& piece, double lr, const View& grad_scale) const;
  Tensor with_even_rows(const Tensor& step, const Tensor& mean_squares) const;

  MuonConfig config_;
};

/// The orthogonal matrix next to x [out, in], about: Newton and Schulz' iteration with Jordan's coefficients,
/// in f32, which brings all singular values near 1.
Tensor orthogonalized(const Tensor& x, std::int64_t iterations);

}  // namespace ingot
