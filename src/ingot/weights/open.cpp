#include "ingot/weights/open.h"

#include <filesystem>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/safetensors.h"

namespace ingot {

std::unique_ptr<WeightSource> open_weights(const std::string& path) {
  if (std::filesystem::is_directory(path) || path.ends_with(".json")) return open_safetensors(path);
  Blob blob = map_blob(path);
  const std::string_view text(reinterpret_cast<const char*>(blob.bytes.data()), blob.bytes.size());
  if (text.starts_with("\x93NUMPY")) return open_npy(std::move(blob));
  // A header of JSON at byte 8 (or damage in a file that says what it wants to be, for the better message).
  if (path.ends_with(".safetensors") || (text.size() > 8 && text[8] == '{')) {
    return open_safetensors(std::move(blob));
  }
  throw FormatError(path, 0, "format", "is none that Ingot reads; it reads .safetensors and .npy");
}

}  // namespace ingot
