#include "ingot/models/policy/rank_net.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/validated.h"
#include "ingot/models/config_file.h"
#include "ingot/models/policy/network_files.h"
#include "ingot/models/require.h"
#include "ingot/weights/open.h"

namespace ingot {

void RankNetConfig::validate() const {
  require_size(context, "rank_net.context");
  require_size(hidden, "rank_net.hidden");
}

RankNetConfig RankNetConfig::from_json(std::string_view json, const std::string& path) {
  const ConfigFile file(json, path);
  std::string type;
  file.read("model_type", type);
  INGOT_CHECK(type == kRankNet,
              FormatError(path, -1, "model_type", fmt::format("is '{}', expected '{}'", type, kRankNet)));
  RankNetConfig config;
  file.read("context", config.context);
  file.read("hidden", config.hidden);
  return validated(config);
}

std::string RankNetConfig::to_json() const {
  return dump_json(nlohmann::ordered_json{{"model_type", kRankNet}, {"context", context}, {"hidden", hidden}},
                   2) +
         "\n";
}

RankNet::RankNet(const ParamSource& source, const RankNetConfig& c)
    : config(validated(c)), layers(source.scope("layers"), {c.context, c.hidden, c.hidden, 24}, 0.01) {}

ArchitectureReport RankNet::architecture_check(const Config& config, const WeightSource& weights) {
  ShapeRecorder shapes;
  const RankNet net(shapes, config);
  ArchitectureReport report = check_architecture(shapes.parameters(), weight_map(config), weights);
  report.family = kRankNet;
  return report;
}

std::unique_ptr<RankNet> RankNet::from_weights(const Config& config, const WeightSource& weights,
                                               const LoadOptions& options) {
  architecture_check(config, weights).require(weights.location());
  MappedSource source(weights, weight_map(config), options);
  return std::make_unique<RankNet>(source, config);
}

void save_rank_net(const std::string& directory, RankNet& net) {
  save_network(directory, net.config.to_json(), net);
}

std::unique_ptr<RankNet> open_rank_net(const std::string& directory, const LoadOptions& options) {
  const NetworkConfigFile file(directory);
  const RankNetConfig config = RankNetConfig::from_json(file.text, file.path);
  return RankNet::from_weights(config, *open_weights(directory + "/model.safetensors"), options);
}

}  // namespace ingot
