#pragma once

#include <string_view>

#include "ingot/core/tensor.h"
#include "ingot/quant/group_matrix.h"

namespace ingot::quant {

/// Rounds w [rows, cols] to groups of integers so that x·Wᵀ changes least over the inputs x of a text (GPTQ,
/// Frantar et al. 2023, arXiv:2210.17323): column after column, each time moving the error to the columns
/// that are still to come. Those with large inputs come first; groups keep their positions, and the scales
/// and zero points of GroupMatrix::quantize, so the result has its layout. products: f32 [cols, cols], Σ xᵀx.
/// Throws as GroupMatrix::quantize does; ShapeMismatch, and NonFinite where the products are not finite.
GroupMatrix quantize_gptq(const Tensor& w, const Tensor& products, const GroupOptions& options,
                          std::string_view name = "the weight");

}  // namespace ingot::quant
