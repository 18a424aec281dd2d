#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/autograd/grad_buckets.h"
#include "ingot/base/parallel.h"
#include "ingot/dist/background.h"
#include "ingot/dist/communicator.h"
#include "ingot/nn/parameter.h"
#include "ingot/optim/clip.h"

namespace ingot {

/// ZeRO (Rajbhandari et al. 2020): every rank has an optimizer's state for its part of the parameters; it
/// steps that part and gets the rest from the others. Up to stage 2 all have all parameters, at stage 3 those
/// of blocks are gathered for the time that they are used (train/weight_shards.h).
///
/// The parameters' gradients lie in buckets (GradBuckets), of which each rank has a slice. Slices begin where
/// neither the blocks of a gradient's norm nor those of 8-bit moments are cut, so that everything has the
/// bits of one process.
class OptimizerShard {
 public:
  struct Options {
    dist::Communicator* communicator = nullptr;
    /// 1: of optimizer state; 2: and of gradients, which are reduced behind each backward pass; 3: and of the
    /// weights of blocks
    int stage = 1;
    std::size_t bucket_bytes = 25 << 20;
    std::vector<std::int64_t> blocks = {};  ///< stage 3, by parameter: the block that it is of, or -1
    /// Stage 3: the thread that gathers weights. What ranks send in a pass goes through it, too.
    dist::Background* background = nullptr;
    /// Of these each rank of a group has an equal part of the whole, in the order of ranks, and that of its
    /// gradient which the group has made.
    std::vector<Parameter*> experts = {};
    int expert_group = 0;  ///< neighbouring ranks that have all experts together; 0: all ranks
    /// The ranks of other groups that have the same experts, and this one; null: there is one group.
    dist::Communicator* expert_peers = nullptr;
  };
  /// `divisible`: whether a parameter may lie on several ranks.
  OptimizerShard(std::span<Parameter* const> parameters, const Options& options,
                 FunctionRef<bool(const Parameter&)> divisible);

  int stage() const { return options_.stage; }
  dist::Background* background() const { return options_.background; }
  std::vector<GradBuckets::Layout> layouts() const;
  /// This rank's part, for an optimizer: whole parameters, or elements [n] of them in the same memory; and
  /// its experts.
  std::vector<Parameter*> parts() const;
  /// By rank, in elements of a bucket.
  std::span<const dist::Slice> slices(std::size_t bucket) const { return buckets_[bucket].slices; }
  const dist::Slice& own_slice(std::size_t bucket) const;

  /// sums[i]: this rank's slice of bucket i. written[p]: more than 0 where parameter p has a gradient.
  void set_gradients(std::span<const Tensor> sums, std::span<const float> written);
  /// Of all gradients: clip_by_global_norm, with its bits.
  ClippedNorm norm(double max_norm) const;
  /// After the step: the other ranks' parts go into the parameters, but for those of blocks.
  void gather_values() const;

  std::int64_t blocks() const;  ///< 0 below stage 3
  /// Of one block.
  std::vector<std::size_t> buckets_of(std::int64_t block) const;
  std::vector<Parameter*> parameters_of(std::size_t bucket) const;
  /// One axis: what this rank has of a bucket's parameters in its place, the rest not set. It has the version
  /// of the rank's part.
  Tensor own_values(std::size_t bucket) const;
  /// The other ranks' parts come into own_values(). All ranks call it, on any thread.
  void gather(std::size_t bucket, const Tensor& values) const;
  /// Points the bucket's parameters at gathered values, which they keep in memory.
  void unshard(std::size_t bucket, const Tensor& values) const;
  /// Leaves them with shape and gradient, and without memory.
  void reshard(std::size_t bucket) const;

  /// "PARAMETER.KIND", what is kept of the parts, by names under which those of all ranks do not meet. What
  /// is of no part keeps its name.
  std::map<std::string, Tensor> named_state(const std::map<std::string, Tensor>& state) const;
  /// The parts' state, out of that of whole parameters; and what is of none of these.
  std::map<std::string, Tensor> part_of(const std::map<std::string, Tensor>& whole) const;
  /// By parameter: what ranks keep of their parts, as they lie in parts(), of one dtype. All ranks call it,
  /// and the first gets the whole, in the host's memory.
  std::map<std::string, Tensor> gather_parts(const std::map<std::string, Tensor>& of_parts) const;
  /// The same of the experts' values alone.
  std::map<std::string, Tensor> gather_experts() const;

 private:
  struct Part {
    std::unique_ptr<Parameter> parameter;
    std::size_t of = 0;         // number of the whole
    dist::Slice elements = {};  // of the whole
    std::size_t at = 0;         // in this rank's slice of the bucket
  };
  struct Bucket {
    GradBuckets::Layout layout;
    std::vector<dist::Slice> slices;
    std::vector<Part> parts;  // of this rank
    std::int64_t block = -1;
    Tensor own;  // this rank's slice of the values, where the bucket is of a block
  };
  Part make_part(const GradBuckets::Layout::Item& item, const dist::Slice& own) const;
  void divide_values(Bucket& bucket, const dist::Slice& slice) const;
  const Part* find(const std::string& parameter) const;
  const Parameter* find_expert(const std::string& parameter) const;
  dist::Slice elements_of_expert(const Parameter& own) const;
  std::int64_t expert_norm_blocks() const;
  int group_size() const;
  bool is_of_first_group() const { return options_.communicator->rank() < group_size(); }
  void sum_expert_gradients() const;
  void gather_experts(const std::map<std::string, Tensor>& of_parts,
                      std::map<std::string, Tensor>& whole) const;
  void add_norm_blocks(const Parameter& part, const Tensor& partials, std::size_t begin,
                       const Tensor& norm) const;

  std::vector<Parameter*> parameters_;
  Options options_;
  std::vector<Bucket> buckets_;
  std::vector<float> written_;
};

/// What stages 1 and 2 share out over all ranks; nothing at stage 0, or where `ranks` is null.
std::optional<OptimizerShard::Options> shared_by(dist::Communicator* ranks, std::int64_t stage);

/// The state of whole parameters, each tensor as one axis where it was divided, out of what named_state()
/// gave on every rank.
std::map<std::string, Tensor> assemble_state(const std::map<std::string, Tensor>& of_all_ranks);

}  // namespace ingot
