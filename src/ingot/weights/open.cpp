#include "ingot/weights/open.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/hdf5.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/npz.h"
#include "ingot/weights/onnx.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/sharded.h"
#include "ingot/weights/tensorflow.h"
#include "ingot/weights/torch.h"
#include "ingot/weights/zip.h"

namespace ingot {
namespace {

constexpr std::array<std::string_view, 11> kUsualNames{
    "model.safetensors", "pytorch_model.bin",     "model.gguf",      "model.keras",
    "model.h5",          "model.weights.h5",      "model.npz",       "model.pt",
    "tf_model.h5",       "bert_model.ckpt.index", "model.ckpt.index"};

std::vector<WeightFormat>& added_formats() {
  static std::vector<WeightFormat> formats;
  return formats;
}

// Names that a directory's weights have, the first that is there counting.
std::vector<std::string_view> usual_names() {
  std::vector<std::string_view> names(kUsualNames.begin(), kUsualNames.end());
  for (const WeightFormat& format : added_formats()) names.push_back(format.usual_name);
  return names;
}

std::string known_formats() {
  std::string text =
      "is none that Ingot reads: .safetensors, .gguf, PyTorch's .pt, .pth and .bin, Keras's "
      ".h5 and .keras, TensorFlow's .index, .onnx, .npy, .npz";
  for (const WeightFormat& format : added_formats())
    text += ", " + std::filesystem::path(format.usual_name).extension().string();
  return text;
}

/// A zip archive is PyTorch's where it holds a pickle, Keras 3's where it holds HDF5, NumPy's otherwise.
std::unique_ptr<WeightSource> open_zip(Blob blob) {
  const ZipArchive archive(blob);
  for (const ZipEntry& entry : archive.entries()) {
    if (entry.name.ends_with(".pkl")) return open_torch(std::move(blob));
    if (entry.name == "model.weights.h5") return open_hdf5(archive.content(entry));
  }
  return open_npz(std::move(blob));
}

}  // namespace

void register_weight_format(const WeightFormat& format) {
  const auto same = [&](const WeightFormat& other) {
    return other.name == format.name || other.usual_name == format.usual_name;
  };
  INGOT_CHECK(std::ranges::find(kUsualNames, format.usual_name) == kUsualNames.end() &&
                  std::ranges::none_of(added_formats(), same),
              InvalidConfig("weight format", "'" + format.name + "' is there already"));
  added_formats().push_back(format);
}

std::unique_ptr<WeightSource> open_weights(Blob blob) {
  for (const WeightFormat& format : added_formats())
    if (format.matches(blob)) return format.open(std::move(blob));
  const std::string& path = blob.name;
  const std::string_view text(reinterpret_cast<const char*>(blob.bytes.data()), blob.bytes.size());
  if (text.starts_with("\x93NUMPY")) return open_npy(std::move(blob));
  if (text.starts_with("GGUF") || path.ends_with(".gguf")) return open_gguf(std::move(blob));
  if (ZipArchive::matches(blob.bytes)) return open_zip(std::move(blob));
  if (is_legacy_torch(blob.bytes)) return open_torch(std::move(blob));
  if (is_hdf5(blob.bytes)) return open_hdf5(std::move(blob));
  // A protobuf message has no mark at its start.
  if (path.ends_with(".onnx")) return open_onnx(std::move(blob));
  // A header of JSON at byte 8 (or damage in a file that says what it wants to be, for the better message).
  if (path.ends_with(".safetensors") || (text.size() > 8 && text[8] == '{')) {
    return open_safetensors(std::move(blob));
  }
  throw FormatError(path, 0, "format", known_formats());
}

std::unique_ptr<WeightSource> open_weights(const std::string& path) {
  const std::string file = std::filesystem::is_directory(path) ? find_weights_in(path, usual_names()) : path;
  if (file.ends_with(".json")) {
    return open_sharded(file, [](Blob blob) { return open_weights(std::move(blob)); });
  }
  if (!std::filesystem::exists(file) && std::filesystem::exists(file + ".index"))
    return open_tensorflow(file);
  if (file.ends_with(".index")) return open_tensorflow(file);
  if (file.ends_with(".gguf")) return open_gguf(file);  // it may be one part of several
  return open_weights(map_blob(file));
}

}  // namespace ingot
