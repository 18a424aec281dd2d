#include "ingot/models/language/checkpoint.h"

#include <filesystem>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/tensorflow_names.h"
#include "ingot/weights/open.h"

namespace ingot {

ModelCheckpoint open_checkpoint(const std::string& path) {
  if (path.ends_with(".gguf") && !std::filesystem::is_directory(path))
    return gguf_checkpoint(open_gguf(path));
  const std::string config_path = path + "/config.json";
  INGOT_CHECK(
      std::filesystem::exists(config_path),
      IoError(path, "is no model: expected a directory with config.json and weights, or a .gguf file"));
  return {read_file(config_path), config_path, under_torch_names(open_weights(path))};
}

}  // namespace ingot
