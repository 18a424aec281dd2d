#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/autograd/grad_buckets.h"
#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/dist/background.h"
#include "ingot/dist/communicator.h"
#include "ingot/nn/parameter.h"
#include "ingot/nn/visit.h"
#include "ingot/train/optimizer_shard.h"

namespace ingot {

struct DataParallelOptions {
  std::int64_t adds = 1;  ///< how often gradients are added in a step
  std::size_t bucket_bytes = 25 << 20;
  bool fast_sums = false;           ///< of ranks' gradients in the order that the engine is fastest in
  OptimizerShard* shard = nullptr;  ///< of the optimizer that steps the parameters; its buckets are the same
  dist::Background* background = nullptr;  ///< what sends the buckets; null: a thread of its own
};

/// Sums gradients over the ranks of a run, of which each has all parameters and works on micro-batches of its
/// own.
///
/// A step of R ranks and M rounds has R * M micro-batches: in each round every rank does one, micro-batch
/// round * R + rank. Ranks' gradients are added in their order, so that all ranks, and every run, have the
/// same bits. Added after every round, they have the bits of any other R and M with the same product.
///
/// Gradients travel in buckets, each as soon as the backward pass has made the last of it.
///
///     parallel.begin(contributes, last); backward(loss); parallel.end();  // in each round, or in the last
///     parallel.finish();
class DataParallel {
 public:
  /// With more than one add the sums take as much memory as the gradients, with a shard the rank's part of
  /// that.
  DataParallel(dist::Communicator& communicator, std::span<Parameter* const> parameters,
               const DataParallelOptions& options);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// The backward pass to come, of at most one micro-batch, is the last before the gradients since the last
  /// end() are added. contributes[rank]: whether that rank has anything to learn from in them; the same on
  /// all ranks. `last`: nothing is added after that before finish().
  void begin(const std::vector<bool>& contributes, bool last);
  /// After it: all buckets are added, and the gradients are dropped.
  void end();
  /// After the last: leaves the sums with the parameters, or this rank's part of them with the shard, and no
  /// gradient where no rank had one.
  void finish();
  /// A step with one batch of `rows`, which all ranks have: begin(), end() and finish() around `learn`, which
  /// does the forward and backward passes of this rank's part of the rows, with a loss that is multiplied by
  /// what they are of the batch, and gives metrics f32 [metrics] that are. Gives the sums of all ranks'.
  Tensor learn_shares(std::size_t rows, std::int64_t metrics,
                      FunctionRef<Tensor(dist::Slice rows, double share)> learn);
  /// Adds up what every rank has at its own offsets, zeros elsewhere. Of the host or the device; f32.
  void gather(const Tensor& values);

 private:
  void make_totals(std::int64_t adds);
  void send(std::size_t bucket);
  void reduce(std::size_t bucket, const Tensor& values) const;
  void note_written(std::size_t bucket);
  std::vector<dist::Slice> slices(std::size_t bucket) const;

  dist::Communicator& communicator_;
  bool fast_sums_;
  OptimizerShard* shard_;
  std::vector<Tensor> leaves_;
  GradBuckets buckets_;
  std::vector<Tensor> totals_;  // of the buckets; their own memory where there is one add and no stage 2
  std::vector<float> written_;  // by leaf: whether any pass gave a gradient
  std::vector<bool> contributes_;
  bool begun_ = false, adds_ = false, last_ = false;  // something was added; something is; see begin()
  std::vector<Event> ready_;                          // of buckets on a device that works beside the host
  std::optional<dist::Background> own_background_;
  dist::Background* background_;
};

/// Of all values of a model, for ranks to compare.
std::string weights_checksum(ModuleRef model);

}  // namespace ingot
