#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// The ranks that have a model's matrices together (tensor parallelism, Shoeybi et al. 2019): each computes
/// with its rows or columns. All call the same functions in the same order.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The sum of the ranks' x, in their order: the same bits on all. May write into x.
  virtual Tensor all_reduce(const Tensor& x) const = 0;
  /// The ranks' columns one after another, f32: x [..., own] of each gives [..., all]. Rank i has columns
  /// [borders[i], borders[i + 1]).
  virtual Tensor all_gather_columns(const Tensor& x, std::span<const std::int64_t> borders) const = 0;
};

/// How the results of a weight that ranks have together become those of the whole one.
struct WeightSplit {
  enum class Kind : std::uint8_t {
    none,        ///< the rank has all of it, or rows whose results stay apart (query, gate)
    columns,     ///< columns of the input: results are summed (the output of attention, down)
    vocabulary,  ///< rows of the vocabulary: logits are gathered, embeddings summed
    features,    ///< those of a norm, whose sums of squares are summed (rms_norms_of_ranks)
  };
  Kind kind = Kind::none;
  std::shared_ptr<const RankGroup> ranks{};  ///< where the kind is not `none`
  std::vector<std::int64_t> borders{};       ///< of the vocabulary: rank i has [borders[i], borders[i + 1])
  std::int64_t features{};                   ///< that a norm has in all
  bool counts = true;                        ///< false: a rank before has the same features, too

  explicit operator bool() const { return kind != Kind::none; }
  /// What this rank has of a weight of this shape.
  Shape own(const Shape& shape) const;
  /// Of what a matmul with the part gave.
  Tensor whole(const Tensor& y) const;
  /// Indices [...] of rows of the whole vocabulary as those of this rank's, i64; 0 for what other ranks have.
  Tensor own_rows(const Tensor& indices) const;
  /// Embeddings [..., width] of the whole vocabulary, from what the part has at own_rows().
  Tensor whole_rows(const Tensor& y, const Tensor& indices) const;

 private:
  bool is_here(std::int64_t row) const;
  std::int64_t begin() const;
};

}  // namespace ingot
