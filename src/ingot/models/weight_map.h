#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// How one parameter of ours stands in a family's checkpoints. Import, export and the architecture check read
/// the same rules.
struct WeightRule {
  std::string ours;         ///< `*` for a layer's number: "model.layers.*.mlp.up_proj.weight"
  std::string theirs;       ///< `*` likewise, `#` for an expert's number where ours stacks them
  bool transposed = false;  ///< theirs is [in, out], or a stack of those
  /// Ours is rows [first, first + rows) of a fused matrix of theirs; rows 0: all of it. The rules of one
  /// fused matrix cover it without gaps.
  std::int64_t first = 0, rows = 0;
  /// > 0: theirs is that many such fused matrices one below the other, one for each head (GPT-NeoX), or, with
  /// three axes (biases: two), one for each expert (Granite MoE); ours is these rows of all of them.
  std::int64_t groups = 0;
  /// With groups: ours is not neighbouring rows but the `first` of every so many (gpt-oss:
  /// interleaved gate and up).
  std::int64_t every = 1;
  std::int64_t stacked = 0;  ///< > 0: ours is that many tensors of theirs on a new first axis
};

/// Another spelling of names that some checkpoints use.
struct WeightSpelling {
  std::string found;      ///< what stands in the file
  std::string canonical;  ///< what the rules say
  bool at_start = false;  ///< only at the start of a name; else anywhere
  std::string variant;    ///< what a report calls a checkpoint that uses it: "legacy gamma and beta"
};

/// What a family's checkpoints call the parameters of a model. A parameter that no rule names is called there
/// as we call it.
struct WeightMap {
  std::vector<WeightRule> rules;
  std::vector<WeightSpelling> spellings;
  std::string prefix;  ///< of the inner model ("transformer."); checkpoints of it alone lack the prefix
  std::vector<std::string> outside;  ///< globs: names that never have the prefix ("lm_head.*")
  std::vector<std::string> ignored;  ///< globs: buffers that files hold and that we compute or do not need

  /// The name that the rules use for a checkpoint's tensor.
  std::string canonical(std::string name) const;
  /// The rule for a parameter of ours, with its layer's number put in; the identity where there is none.
  WeightRule rule_for(const std::string& ours) const;
};

/// The checkpoint's names of what a (bound) rule reads.
std::vector<std::string> sources_of(const WeightRule& rule);

/// Makes a parameter of ours from a checkpoint's tensors, which `lookup` gives by canonical name; undefined
/// where one of them is. Shares memory where it can.
Tensor import_tensor(const WeightRule& bound, const std::function<Tensor(const std::string&)>& lookup);

/// A checkpoint's tensors under our names. Tensors that no rule knows keep their names.
std::map<std::string, Tensor> import_tensors(const WeightMap& map,
                                             const std::map<std::string, Tensor>& checkpoint);
/// The reverse, for writing.
std::map<std::string, Tensor> export_tensors(const WeightMap& map, const std::map<std::string, Tensor>& ours);

}  // namespace ingot
