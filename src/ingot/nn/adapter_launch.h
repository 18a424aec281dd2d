#pragma once

#include <cstdint>
#include <span>

#include "ingot/nn/linear_input.h"
#include "ingot/nn/linear_weight.h"

namespace ingot {

/// A layer's result, x·Wᵀ + bias.
struct LayerResult {
  const LinearWeight& weight;
  const Tensor& bias;
  Tensor y;
};
/// Adds what the adapters that are on make of x, the input of all these layers, to their results: in one
/// launch, where nothing is recorded for a backward pass.
void add_adapters(std::span<LayerResult> results, const LinearInput& x);

/// The rows of an input of so many that the adapter is applied to.
AdapterRows::Range rows_of(const LowRankAdapter& adapter, std::int64_t rows);

/// Of a decomposed adapter: B with what its rows are multiplied with, and what W's rows are multiplied with
/// to be added, [out, 1].
struct DecomposedRows {
  Tensor b, of_base;
};
DecomposedRows decomposed_rows(const LinearWeight& weight, const LowRankAdapter& adapter, DType dtype);

/// Keeps A and B as inference reads them fastest: B by columns, and both in no more bits than the weight is
/// rounded to: in 16 where it has those, and in 8 on a CPU where it is quantized. Leaves embeddings and what
/// is decomposed as they are.
void prepare_for_inference(LowRankAdapter& adapter, const LinearWeight& of);

}  // namespace ingot
