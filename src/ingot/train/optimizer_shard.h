#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/autograd/grad_buckets.h"
#include "ingot/base/parallel.h"
#include "ingot/dist/communicator.h"
#include "ingot/nn/parameter.h"
#include "ingot/optim/clip.h"

namespace ingot {

/// ZeRO (Rajbhandari et al. 2020): every rank has all parameters, and an optimizer's state for its part of
/// them; it steps that part and gets the rest from the others.
///
/// The parameters' gradients lie in buckets (GradBuckets), of which each rank has a slice. Slices begin where
/// neither the blocks of a gradient's norm nor those of 8-bit moments are cut, so that everything has the
/// bits of one process.
class OptimizerShard {
 public:
  struct Options {
    dist::Communicator* communicator = nullptr;
    /// 1: of optimizer state; 2: and of gradients, which are reduced behind each backward pass
    int stage = 1;
    std::size_t bucket_bytes = 25 << 20;
  };
  /// `divisible`: whether a parameter may lie on several ranks.
  OptimizerShard(std::span<Parameter* const> parameters, const Options& options,
                 FunctionRef<bool(const Parameter&)> divisible);

  int stage() const { return options_.stage; }
  /// This rank's part, for an optimizer: whole parameters, or elements [n] of them in the same memory.
  std::vector<Parameter*> parts() const;
  /// By rank, in elements of a bucket.
  std::span<const dist::Slice> slices(std::size_t bucket) const { return buckets_[bucket].slices; }
  const dist::Slice& own_slice(std::size_t bucket) const;

  /// sums[i]: this rank's slice of bucket i. written[p]: more than 0 where parameter p has a gradient.
  void set_gradients(std::span<const Tensor> sums, std::span<const float> written);
  /// Of all gradients: clip_by_global_norm, with its bits.
  ClippedNorm norm(double max_norm) const;
  /// After the step: the other ranks' parts go into the parameters.
  void gather_values() const;

  /// The optimizer's state of the parts, by names under which those of all ranks do not meet.
  std::map<std::string, Tensor> named_state(const std::map<std::string, Tensor>& state) const;
  /// The parts' state, out of that of whole parameters.
  std::map<std::string, Tensor> part_of(const std::map<std::string, Tensor>& whole) const;

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
  };
  Part make_part(const GradBuckets::Layout::Item& item, const dist::Slice& own) const;
  const Part* find(const std::string& parameter) const;

  std::vector<Parameter*> parameters_;
  Options options_;
  std::vector<Bucket> buckets_;
  std::vector<float> written_;
};

/// The state of whole parameters, each tensor as one axis where it was divided, out of what named_state()
/// gave on every rank.
std::map<std::string, Tensor> assemble_state(const std::map<std::string, Tensor>& of_all_ranks);

}  // namespace ingot
