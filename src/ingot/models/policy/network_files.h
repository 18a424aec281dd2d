#pragma once

#include <string>
#include <string_view>

#include "ingot/nn/visit.h"

namespace ingot {

/// Writes a policy network's config.json and model.safetensors, all or nothing. IoError where the directory
/// cannot be written.
void save_network(const std::string& directory, std::string_view config_json, ModuleRef network);

/// The config.json of a network's directory. IoError where there is none.
struct NetworkConfigFile {
  explicit NetworkConfigFile(const std::string& directory);
  std::string path;
  std::string text;
};

}  // namespace ingot
