#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/nn/linear.h"
#include "ingot/ops/qkv.h"

namespace ingot {

/// What several layers make of one input: a tensor [..., out] of each, or all concatenated in one, [..., sum
/// of outs], as a fused matmul writes them.
struct Projections {
  Tensor fused;  // or
  std::vector<Tensor> each;
};

/// Linear layers with one input: query, key and value; gate and up. It alone decides what is fused: their
/// input is quantized once, quantized matmuls share one round of the threads, dense ones are one launch or,
/// with weights that are contiguous in memory, one matmul. Parameters keep the layers' own names.
class ProjectionGroup {
 public:
  struct Layer {
    std::string name;
    LinearOptions options;
  };
  /// Weights that are to be trained on a device that is faster so are made contiguous in memory.
  ProjectionGroup(const ParamSource& source, std::vector<Layer> layers);

  /// Fused where is_fused() holds.
  Projections operator()(const LinearInput& x) const;
  /// A tensor of each layer, [..., out].
  std::vector<Tensor> each(const LinearInput& x) const;
  /// Concatenated in one tensor, by one matmul where the weights are. All layers are dense.
  Tensor fused(const Tensor& x) const;
  /// Whether one matmul makes all: what it does next is recorded for a backward pass, now or when it is run
  /// once more, and the weights are contiguous, without adapters.
  bool is_fused() const;
  /// Whether all are dense, without adapters or a recipe: for ops that take several layers' weights.
  bool is_plain() const;

  std::size_t size() const { return layers_.size(); }
  Linear& operator[](std::size_t i) { return *layers_[i]; }
  const Linear& operator[](std::size_t i) const { return *layers_[i]; }
  /// Throws Error that names the layers there are.
  const Linear& layer(std::string_view name) const;
  void visit(ParamVisitor& v);

  /// Makes the weights, and the biases, contiguous in memory, so that matmuls and gradients of all are
  /// one; copies them. Does nothing where layers are quantized or not to be trained (their weights may be a
  /// file's memory), or differ in what they have.
  void concatenate_weights();

 private:
  std::vector<Tensor> together(const LinearInput& x) const;
  quant::Rounding rounding(const LinearInput& x) const;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Linear>> layers_;
};

/// Queries, keys and values, [B, S, heads, D] each, of a group of those three.
Qkv split_heads(Projections projections, std::int64_t heads, std::int64_t kv_heads);

}  // namespace ingot
