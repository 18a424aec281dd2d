#include "ingot/models/policy/network_files.h"

#include <filesystem>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {

void save_network(const std::string& directory, std::string_view config_json, ModuleRef network) {
  AtomicDirectory files(directory);
  write_file_atomically(files.file("config.json"), config_json);
  const auto parameters = named_parameters(network);
  std::vector<StoredTensor> tensors;
  tensors.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters)
    tensors.push_back(StoredTensor::of(name, parameter->value.detach()));
  write_safetensors(files.file("model.safetensors"), tensors);
  files.commit();
}

NetworkConfigFile::NetworkConfigFile(const std::string& directory) : path(directory + "/config.json") {
  INGOT_CHECK(std::filesystem::exists(path),
              IoError(directory, "is not a model directory: it holds no config.json"));
  text = read_file(path);
}

}  // namespace ingot
