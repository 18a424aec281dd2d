#include "ingot/train/run_metadata_file.h"

#include <filesystem>
#include <system_error>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot {

void write_metadata(const RunMetadata& metadata, const std::string& directory) {
  if (!metadata.version.empty())
    write_file_atomically(directory + "/" + kRunMetadataFile, metadata.to_json() + "\n");
}

std::optional<RunMetadata> read_metadata(const std::string& directory) {
  const std::string path = directory + "/" + kRunMetadataFile;
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return std::nullopt;
  return RunMetadata::from_json(read_file(path), path);
}

RunMetadata readable_metadata(const std::string& directory) {
  try {
    return read_metadata(directory).value_or(RunMetadata());
  } catch (const FormatError&) {
    return {};
  }
}

}  // namespace ingot
