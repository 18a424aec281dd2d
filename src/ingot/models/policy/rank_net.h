#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ingot/models/policy/dual_pool_net.h"

namespace ingot {

struct RankNetConfig {
  std::int64_t context = 16;  ///< numbers about the scores
  std::int64_t hidden = 128;
  /// Throws InvalidConfig naming the key.
  void validate() const;
  /// That of a config.json, whose model_type is kRankNet. FormatError for another model.
  static RankNetConfig from_json(std::string_view json, const std::string& path);
  std::string to_json() const;
};
inline constexpr std::string_view kRankNet = "rank_net";

/// The odds of the 24 orders that four players can end a game in, from scores, round and honba alone: what
/// turns points of a round into chances of places.
struct RankNet {
  using Config = RankNetConfig;
  RankNet(const ParamSource& source, const RankNetConfig& config);
  // A PortableModel.
  static WeightMap weight_map(const Config&) { return {}; }
  static ArchitectureReport architecture_check(const Config& config, const WeightSource& weights);
  static std::unique_ptr<RankNet> from_weights(const Config& config, const WeightSource& weights,
                                               const LoadOptions& options = {});
  /// context: [batch, context]; logits: [batch, 24].
  Tensor operator()(const Tensor& context) const { return layers(context); }
  void visit(ParamVisitor& v) { v("layers", layers); }

  RankNetConfig config;
  ReluMlp layers;
};

/// Writes config.json and model.safetensors, all or nothing.
void save_rank_net(const std::string& directory, RankNet& net);
/// Opens such a directory. Throws as open_dual_pool_net does.
std::unique_ptr<RankNet> open_rank_net(const std::string& directory, const LoadOptions& options = {});

}  // namespace ingot
