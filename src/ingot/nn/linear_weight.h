#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/nn/linear_input.h"
#include "ingot/nn/low_rank_adapter.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/rank_group.h"
#include "ingot/nn/visit.h"

namespace ingot {

struct ExpertLinear;  // nn/expert_linear.h
struct WeightRecipe;  // nn/recipe/operand_rounding.h

/// The matrix [out, in] of a linear layer or of an embedding: dense, or quantized, with any number of
/// low-rank adapters on top. Everything that applies a weight goes through here, so that whoever changes what
/// a weight is (an adapter, another format) changes it for every model.
struct LinearWeight {
  /// `quantizable` false: dense even where the source has it quantized.
  LinearWeight(const ParamSource& source, std::string_view name, const Shape& shape, const Init& init,
               bool quantizable = true);

  Shape shape() const;
  std::int64_t out() const { return shape()[0]; }
  std::int64_t in() const { return shape()[1]; }
  Device device() const;
  /// Bytes of the matrix, without adapters.
  std::size_t nbytes() const;
  bool is_quantized() const { return packed != nullptr; }
  /// Whether applying it quantizes its input to eight bits.
  bool quantizes_input() const;
  /// What its values are computed in: the dense matrix' dtype, f32 of a quantized one.
  DType dtype() const;
  /// Whether an adapter is on.
  bool is_adapted() const;
  /// Whether applying it is a matmul with the dense matrix and nothing more, so that an op may do it.
  bool is_plain() const { return packed == nullptr && recipe == nullptr && !split && !is_adapted(); }

  /// x·Wᵀ + bias, with what the adapters that are on add. x: [..., in]; bias: [out] or undefined; returns
  /// [..., out]. While gradients are recorded, a quantized matrix multiplies with its values, and x is not
  /// quantized; its gradient goes to x, the bias and the adapters. With a recipe the matmul, and those of
  /// its gradients, are the recipe's, recorded or not; adapters' matmuls are not. Where ranks have the weight
  /// together the result is that of the whole one. Throws ShapeMismatch.
  Tensor operator()(const LinearInput& x, const Tensor& bias = {}) const;
  /// Rows by index, [...] i64 or i32 -> [..., in]; f32 of a quantized matrix.
  Tensor rows(const Tensor& indices) const;
  /// The matmul alone, without adapters: with the dense matrix, or with a quantized one's values.
  Tensor base_matmul(const Tensor& x, const Tensor& bias = {}) const;
  /// Rows by index without adapters, [rows] i64 -> f32 [rows, in], without gradients.
  Tensor base_rows(const Tensor& indices) const;
  /// The whole matrix with the adapters that are on, as values; gradients reach what is trainable. The dense
  /// matrix itself where there is no more; a quantized one in the dtype asked for. For ops that read a head,
  /// or weights of several layers, as tensors.
  Tensor effective(DType dequantized = DType::f32) const;

  LowRankAdapter& add_adapter(const ParamSource& source, std::string name, std::int64_t rank, float scale);
  /// Puts one on that was made apart. Error where there is one of its name.
  LowRankAdapter& add_adapter(std::unique_ptr<LowRankAdapter> adapter);
  /// Null where there is none of this name.
  LowRankAdapter* find_adapter(std::string_view name);

  WeightSplit split;        ///< where ranks have the weight together; it is for inference then
  quant::PackedPtr packed;  ///< null: `dense` is there
  Parameter dense;
  AdapterList adapters;
  std::shared_ptr<const WeightRecipe> recipe;  ///< null: matmuls in the operands' own dtype

 private:
  Tensor rows_here(const Tensor& indices) const;
};

/// How nn applies several weights to one input: x's rounding that all of them take, or none.
quant::Rounding common_rounding(std::span<const LinearWeight* const> weights, std::int64_t rows);
/// Whether quantized matrices multiply with their values here: gradients are enabled, or what runs is run
/// once more with them. All layers then compute with the values that gradients belong to, trained or not.
bool multiplies_with_values();
/// Adds what the adapters of the weight that are on make of x to y, which is x·Wᵀ + bias.
Tensor add_adapters(const LinearWeight& weight, Tensor y, const LinearInput& x, const Tensor& bias);

/// One application of a weight: of a linear layer's or an embedding's, or of the experts' of a layer.
struct WeightUse {
  const LinearWeight* linear = nullptr;   ///< or
  const ExpertLinear* experts = nullptr;  ///< those of a layer
  std::int64_t rows = 0;                  ///< of its input; 0 where an op reads the matrix as a whole
  bool by_index = false;                  ///< rows of the matrix are taken, nothing is multiplied
};

/// While it lives, tells f each weight that is applied on this thread: once for each operator(), rows() or
/// effective(), and for each part of a fused matmul. For tests and for counting work.
class WeightObserver {
 public:
  explicit WeightObserver(std::function<void(const WeightUse&)> f);
  ~WeightObserver();
  WeightObserver(const WeightObserver&) = delete;
  WeightObserver& operator=(const WeightObserver&) = delete;
  static void tell(const WeightUse& use);

 private:
  std::function<void(const WeightUse&)> f_;
  WeightObserver* outer_;
};

}  // namespace ingot
