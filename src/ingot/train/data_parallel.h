#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ingot/autograd/grad_buckets.h"
#include "ingot/dist/communicator.h"
#include "ingot/nn/parameter.h"

namespace ingot {

/// Sums gradients over the ranks of a run, of which each has all parameters and works on micro-batches of its
/// own.
///
/// A step of R ranks and M rounds has R * M micro-batches: in each round every rank does one, micro-batch
/// round * R + rank. Ranks' gradients are added in their order, so that all ranks, and every run, have the
/// same bits. Called after every round, add() makes them the bits of any other R and M with the same product.
class DataParallel {
 public:
  /// `adds`: how often add() is called in a step. With more than one the sums take as much memory as the
  /// gradients.
  DataParallel(dist::Communicator& communicator, std::span<Parameter* const> parameters, std::int64_t adds);

  /// Takes the gradients of the backward passes since the last call. contributes[rank]: whether that rank had
  /// anything to learn from; the same on all ranks.
  void add(const std::vector<bool>& contributes);
  /// After the last: leaves the sums with the parameters, and no gradient where no rank had one.
  void finish();
  /// Adds up what every rank has in its own places, zeros elsewhere. Of the host or the device; f32.
  void gather(const Tensor& values);

 private:
  dist::Communicator& communicator_;
  std::vector<Tensor> leaves_;
  GradBuckets buckets_;
  std::vector<Tensor> totals_;  // of the buckets; their own memory where there is one round
  std::vector<float> written_;  // by leaf: whether any pass gave a gradient
  bool begun_ = false;
};

}  // namespace ingot
