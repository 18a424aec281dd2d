#include "ingot/export/model_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/models/config_file.h"
#include "ingot/models/keras_hub.h"
#include "ingot/models/open_tokenizer.h"

namespace ingot {

namespace fs = std::filesystem;

namespace {

/// Files beside the weights that only its own tools understand.
bool is_keras_preset(const std::string& model) {
  const std::string config = model + "/config.json";
  return fs::exists(config) && keras_hub_config(read_file(config), config).has_value();
}

}  // namespace

WrittenCallback count_written(const WriteProgress& progress, std::uint64_t total) {
  if (!progress) return {};
  // Writers copy it for every tensor.
  return [progress, total, done = std::make_shared<std::uint64_t>(0)](std::uint64_t bytes) {
    *done += bytes;
    progress(*done, total);
  };
}

bool is_model(const std::string& path) {
  return fs::is_directory(path) ? fs::exists(path + "/config.json") : path.ends_with(".gguf");
}

void copy_companions(const std::string& model, const std::string& directory) {
  if (!fs::is_directory(model) || is_keras_preset(model)) {
    if (has_tokenizer(model)) open_tokenizer(model).save_directory(directory);
    return;
  }
  for (const auto& entry : fs::directory_iterator(model)) {
    const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
    const bool text =
        ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".jinja" || ending == ".md";
    const bool of_weights =
        name == "config.json" || name == "quantize_config.json" || name.ends_with(".index.json");
    if (entry.is_regular_file() && text && !of_weights)
      fs::copy_file(entry.path(), fs::path(directory) / name);
  }
}

void check_destination(const std::string& source, const std::string& destination,
                       const std::vector<std::string>& written) {
  // Nobody means a directory by a name that ends so.
  static const std::set<std::string> endings{
      ".gguf", ".npz",   ".safetensors", ".onnx", ".bin", ".pt",      ".pth",    ".ckpt", ".h5",
      ".hdf5", ".keras", ".pb",          ".npy",  ".pkl", ".msgpack", ".tflite", ".ggml", ".safetensor",
      ".gz",   ".zst",   ".zip",         ".tar",  ".ot",  ".mlmodel", ".engine"};
  const std::string ending = fs::path(destination).extension().string();
  std::string lower = ending;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool known = std::ranges::find(written, ending) != written.end();
  INGOT_CHECK(known || !endings.contains(lower),
              InvalidConfig(destination,
                            fmt::format("{} is not an ending of what is written here; end the name in {}{}"
                                        "nothing for a directory",
                                        ending, fmt::join(written, ", "), written.empty() ? "" : " or ")));
  std::error_code ignored;
  INGOT_CHECK(!fs::equivalent(source, destination, ignored),
              InvalidConfig("destination", "is the source itself; give another name"));
}

std::string config_with_vocabulary(const std::string& config, std::int64_t tokens) {
  auto json = parse_json<nlohmann::ordered_json>(config, "config.json");
  const bool nested = json.contains("text_config") && json["text_config"].contains("vocab_size");
  (nested ? json["text_config"] : json)["vocab_size"] = tokens;
  return dump_json(json, 2) + "\n";
}

std::string config_with_dtype(const std::string& config, std::optional<DType> dtype) {
  if (!dtype) return config;
  auto json = parse_json<nlohmann::ordered_json>(config, "config.json");
  json["torch_dtype"] = torch_name(*dtype);
  if (json.contains("dtype")) json["dtype"] = torch_name(*dtype);  // transformers 5's name of it
  return dump_json(json, 2) + "\n";
}

}  // namespace ingot
