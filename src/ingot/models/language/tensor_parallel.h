#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/rank_group.h"
#include "ingot/nn/split_source.h"

namespace ingot {

/// How ranks have a decoder together (tensor parallelism), as Megatron splits it: query heads with their key
/// and value heads, the MLP's inner width, that of each expert, and the vocabulary. Sums follow the output of
/// attention and the MLP, or all experts together; norms and routers are on every rank. Where there are more
/// ranks than key/value heads, several have the same one. Parts may differ in size, as key/value heads are
/// not divided and quantized matrices are cut between blocks; the first rank, which also chooses the tokens,
/// has the smallest.
class TensorParallelSplit final : public ParamSplit {
 public:
  /// `whole` tells where quantized matrices can be cut. InvalidConfig for tensor_parallel_size where a family
  /// cannot be split, or not among so many.
  TensorParallelSplit(LanguageConfig config, ParamProvider& whole, std::shared_ptr<const RankGroup> ranks);

  /// Of this rank's part: a model of its own, but for the vocabulary, which it names whole.
  const LanguageConfig& config() const { return config_; }
  const LanguageConfig& whole_config() const { return whole_; }
  std::int64_t first_head() const { return heads_.begin; }
  ParamPart part(const std::string& name, const Shape& own) const override;
  WeightSplit split(const std::string& name) const override;

 private:
  struct Range {
    std::int64_t begin = 0, end = 0, all = 1;
    std::int64_t size() const { return end - begin; }
  };
  /// Columns at whose multiples all matrices of such names can be cut.
  std::int64_t unit_of(ParamProvider& whole, const std::string& ending) const;
  void split_heads(std::int64_t unit);
  void split_more_ranks_than_kv_heads(std::int64_t unit);
  /// Where the parts of something begin and end that can be split at multiples of `unit`.
  std::vector<std::int64_t> borders(std::int64_t all, std::int64_t unit, const char* what) const;
  Range own(const std::vector<std::int64_t>& borders) const;
  const Range* range_of(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::shared_ptr<const RankGroup> ranks_;
  LanguageConfig whole_, config_;
  std::map<std::string, Shape> shapes_;  // of the whole model's parameters
  bool is_first_with_keys_ = true;       // of the ranks that have the same head of keys
  Range heads_, kv_heads_, inner_, expert_inner_, shared_inner_, vocabulary_;
  std::vector<std::int64_t> vocabulary_borders_;
};

/// This rank's part of a model whose parameters `whole` has. Throws as TensorParallelSplit does.
std::unique_ptr<LanguageModel> make_split_model(const LanguageConfig& config, ParamProvider& whole,
                                                std::shared_ptr<const RankGroup> ranks);

}  // namespace ingot
