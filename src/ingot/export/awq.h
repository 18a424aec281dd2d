#pragma once

#include <map>
#include <string>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/quant/matrix_format.h"
#include "ingot/weights/quantized_writer.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// Factors s of a layer's inputs for which rounding W·diag(s), with inputs x / s, changes x·Wᵀ least over a
/// text (AWQ, Lin et al. 2024, arXiv:2306.00978): the best of 20 powers of the inputs' sizes; the first is s
/// = 1. weights: f32 [rows, cols], all of one input; products: Σ xᵀx, f32 [cols, cols]. Returns f32 [cols].
Tensor awq_factors(const std::vector<Tensor>& weights, const Tensor& products,
                   const quant::GroupOptions& options);

/// A checkpoint of the same function whose matrices lose less by rounding: columns that large inputs meet are
/// made larger, and the norm or the matrix in front makes those inputs smaller. Norms feed queries, keys and
/// values, and the gate and up projections; up projections feed down projections.
class AwqSource final : public WeightSource {
 public:
  /// `products` (Σ xᵀx) is asked for each layer when its factors are needed. The source must outlive this.
  /// NotImplemented for a family whose norms feed something else, too (experts, parallel blocks).
  AwqSource(const WeightSource& source, const LanguageConfig& config, InputProducts products,
            const quant::GroupOptions& options);
  std::string_view format() const override { return source_.format(); }
  /// Σ xᵀx over the scaled inputs, for GPTQ behind it.
  Tensor products_of(const std::string& weight) const;

 protected:
  Tensor load(const TensorInfo& info) const override;

 private:
  /// What makes inputs smaller, and the matrices that they meet.
  struct Group {
    std::string producer;  ///< without ".weight" and ".bias"
    std::vector<std::string> consumers;
  };
  void add_group(Group group);
  const Tensor& factors(std::size_t group) const;

  const WeightSource& source_;
  InputProducts products_;
  quant::GroupOptions options_;
  bool norm_unit_offset_;
  std::vector<Group> groups_;
  std::map<std::string, std::size_t> producers_, consumers_;  // indices in groups_
  mutable std::map<std::size_t, Tensor> factors_;
};

}  // namespace ingot
