#pragma once

#include <memory>
#include <string>

#include "ingot/models/adapter/modules.h"
#include "ingot/nn/low_rank_adapter.h"

namespace ingot {

/// What the adapter of token rows beside the adapter `name` is called.
inline std::string token_rows_name(std::string_view name) { return std::string(name) + ".tokens"; }
/// Whether an adapter belongs to the one called `name`.
inline bool belongs_to(const LowRankAdapter& adapter, std::string_view name) {
  return adapter.name == name || adapter.name == token_rows_name(name);
}

/// Whether a weight is the table of token embeddings, or the head, whose rows may be trained by themselves.
bool has_token_rows(const AdaptedWeight& at);
/// An adapter that gives these rows of an embedding or a head values of their own: `values` [tokens, in], or
/// undefined for those that they have. InvalidConfig for a row that the weight does not have.
std::unique_ptr<LowRankAdapter> token_row_adapter(const AdaptedWeight& at, const std::string& name,
                                                  const std::vector<std::int64_t>& tokens,
                                                  const Tensor& values = {});
/// Adds rows to those that the adapter beside `name` has of a weight, with the values that they have; makes
/// the adapter where there is none.
void add_token_rows(const AdaptedWeight& at, const std::string& name,
                    const std::vector<std::int64_t>& tokens);
/// The rows' own values, f32 [tokens, in], where the adapter's A is `a`.
Tensor values_of_token_rows(const AdaptedWeight& at, const LowRankAdapter& adapter, const Tensor& a);

}  // namespace ingot
