#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/validated.h"
#include "ingot/models/config_file.h"
#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/models/policy/network_files.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

// The sizes by their keys in config.json: one list for reading and writing.
template <class Config, class F>
void each_size(Config& c, F&& f) {
  f("input_channels", c.input_channels);
  f("width", c.width);
  f("channels", c.channels);
  f("blocks", c.blocks);
  f("kernel", c.kernel);
  f("norm_groups", c.norm_groups);
  f("se_reduction", c.se_reduction);
  f("actions", c.actions);
  f("rank_context", c.rank_context);
  f("final_norm", c.final_norm);
}

}  // namespace

DualPoolNetConfig DualPoolNetConfig::from_json(std::string_view json, const std::string& path) {
  const ConfigFile file(json, path);
  std::string type;
  file.read("model_type", type);
  INGOT_CHECK(type == kDualPoolNet,
              FormatError(path, -1, "model_type", fmt::format("is '{}', expected '{}'", type, kDualPoolNet)));
  DualPoolNetConfig config;
  each_size(config, [&](const char* key, auto& value) {
    INGOT_CHECK(file.has(key), FormatError(path, -1, key, "is missing"));
    file.read(key, value);
  });
  return validated(config);
}

std::string DualPoolNetConfig::to_json() const {
  nlohmann::ordered_json json{{"model_type", kDualPoolNet}};
  each_size(*this, [&](const char* key, const auto& value) { json[key] = value; });
  return dump_json(json, 2) + "\n";
}

ArchitectureReport DualPoolNet::architecture_check(const Config& config, const WeightSource& weights) {
  require_enough_tensors(config.blocks, "blocks", weights);
  ShapeRecorder shapes;
  const DualPoolNet net(shapes, config);
  ArchitectureReport report = check_architecture(shapes.parameters(), weight_map(config), weights);
  report.family = kDualPoolNet;
  return report;
}

std::unique_ptr<DualPoolNet> DualPoolNet::from_weights(const Config& config, const WeightSource& weights,
                                                       const LoadOptions& options) {
  const ArchitectureReport report = architecture_check(config, weights);
  report.require(weights.location());
  // Only Ingot writes these: what is too much is a sign of another network's config.json.
  INGOT_CHECK(report.unexpected.empty(),
              FormatError(weights.location(), -1, "tensors",
                          fmt::format("{} more than a network of this config.json has, the first is {}",
                                      report.unexpected.size(), report.unexpected.front())));
  MappedSource source(weights, weight_map(config), options);
  return std::make_unique<DualPoolNet>(source, config);
}

void save_dual_pool_net(const std::string& directory, DualPoolNet& net) {
  save_network(directory, net.config.to_json(), net);
}

std::unique_ptr<DualPoolNet> open_dual_pool_net(const std::string& directory, const LoadOptions& options) {
  const NetworkConfigFile file(directory);
  const DualPoolNetConfig config = DualPoolNetConfig::from_json(file.text, file.path);
  return DualPoolNet::from_weights(config, *open_weights(directory + "/model.safetensors"), options);
}

}  // namespace ingot
