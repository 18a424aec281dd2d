#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/units.h"
#include "ingot/cli/verbs.h"
#include "ingot/models/language/config.h"
#include "ingot/weights/open.h"

namespace ingot::cli {
namespace {

struct Options {
  std::string path;
  bool json = false;
};

int run(const Options& o) {
  const auto source = open_weights(o.path);
  std::int64_t elements = 0;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TensorInfo& info : source->tensors()) {
    elements += info.numel();
    list.push_back({{"name", info.name},
                    {"shape", info.shape},
                    {"dtype", info.stored_as},
                    {"bytes", info.bytes},
                    {"file", std::filesystem::path(info.file).filename().string()},
                    {"offset", info.offset}});
  }
  const std::string config_path = o.path + "/config.json";
  std::string architecture;
  if (std::filesystem::exists(config_path)) {
    const LanguageConfig config = LanguageConfig::from_json(read_file(config_path), config_path);
    architecture = fmt::format("{}, {} layers, width {}, {} heads ({} for keys), vocabulary {}, context {}",
                               config.model_type, config.num_hidden_layers, config.hidden_size,
                               config.num_attention_heads, config.num_key_value_heads, config.vocab_size,
                               config.max_position_embeddings);
  }
  if (o.json) {
    nlohmann::ordered_json json{
        {"path", o.path},       {"format", source->format()},     {"metadata", source->metadata()},
        {"elements", elements}, {"bytes", source->total_bytes()}, {"tensors", list}};
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  std::size_t width = 4;
  for (const TensorInfo& info : source->tensors()) width = std::max(width, info.name.size());
  for (const TensorInfo& info : source->tensors()) {
    fmt::print("{:<{}}  {:<8}  {:<20} {:>10}\n", info.name, width, info.stored_as, to_string(info.shape),
               human_bytes(info.bytes));
  }
  if (!architecture.empty()) fmt::print("\n{}\n", architecture);
  fmt::print("{}{}: {} tensors, {} elements, {}\n", architecture.empty() ? "\n" : "", source->format(),
             source->tensors().size(), human_count(static_cast<double>(elements)),
             human_bytes(source->total_bytes()));
  return 0;
}

}  // namespace

void add_inspect(Command& root) {
  auto o = std::make_shared<Options>();
  Command verb =
      root.verb("inspect", "List what a model file or directory holds: names, shapes, dtypes, sizes");
  verb.option("path", o->path, "A model directory, a .safetensors or a .npy file").required();
  verb.flag("--json", o->json, "Print JSON");
  verb.example("ingot inspect out/model", "every tensor, then the architecture and the sum");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
