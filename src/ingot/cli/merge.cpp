#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/units.h"
#include "ingot/cli/verbs.h"
#include "ingot/cli/write_model.h"
#include "ingot/hub/resolve.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/use_adapters.h"
#include "ingot/models/config_file.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::cli {
namespace {

struct MergeOptions {
  std::string model, destination, dtype;
  std::vector<std::string> adapters;
  bool json = false;
};

std::vector<AdapterChoice> adapters_of(const MergeOptions& o) {
  std::vector<AdapterChoice> choices;
  for (const std::string& text : o.adapters) {
    AdapterChoice choice = AdapterChoice::parse(text);
    choice.path = hub::resolve_model(choice.path);
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::string config_with_dtype(const std::string& config, const std::string& dtype) {
  if (dtype.empty()) return config;
  auto json = parse_json<nlohmann::ordered_json>(config, "config.json");
  json.erase("torch_dtype");
  json["dtype"] = torch_name(parse_dtype(dtype));
  return dump_json(json, 2) + "\n";
}

int run(MergeOptions o) {
  o.model = hub::resolve_model(o.model);
  std::error_code ignored;
  INGOT_CHECK(!std::filesystem::equivalent(o.model, o.destination, ignored),
              InvalidConfig("destination", "is the base model itself; give another name"));
  const ModelCheckpoint checkpoint = open_checkpoint(o.model);
  LoadOptions options{.copy = false, .trainable = false};
  if (!o.dtype.empty()) options.dtype = parse_dtype(o.dtype);
  const auto model = load_language_model(checkpoint, options);
  use_adapters(*model, adapters_of(o));
  merge_adapters(*model);

  std::vector<StoredTensor> tensors;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] :
       export_tensors(LanguageModel::weight_map(model->config), parameter_map(*model))) {
    bytes += tensor.nbytes();
    tensors.push_back(StoredTensor::of(name, tensor));
  }
  require_disk_space(o.destination, bytes, "the merged model");
  AtomicDirectory out(o.destination);
  write_file_atomically(out.file("config.json"), config_with_dtype(checkpoint.config_json, o.dtype));
  copy_companions(o.model, out.path());
  write_safetensors_directory(out.path(), tensors);
  out.commit();
  if (o.json) {
    fmt::print("{}\n", dump_json(nlohmann::ordered_json{
                           {"path", o.destination}, {"adapters", o.adapters.size()}, {"bytes", bytes}}));
  } else {
    fmt::print("{}: {} with {} merged, {}\n", o.destination, o.model, fmt::join(o.adapters, ", "),
               human_bytes(bytes));
  }
  return 0;
}

}  // namespace

void add_merge(Command& root) {
  auto o = std::make_shared<MergeOptions>();
  Command verb = root.verb("merge", "Add LoRA adapters to the weights of their base model");
  verb.option("model", o->model, "The base model: a directory, a GGUF file, or a Hub name").required();
  verb.option("destination", o->destination, "The directory to write").required();
  verb.option("--adapter", o->adapters,
              "A directory as PEFT writes it, or DIRECTORY=WEIGHT; may be repeated, updates add up")
      .required();
  verb.option("--dtype", o->dtype, "Element type of the merged weights: f32, bf16, f16 (default: as stored)");
  verb.flag("--json", o->json, "Print path, adapters and bytes as JSON");
  verb.example("ingot merge base merged --adapter out/adapter", "a model that needs no adapter");
  verb.example("ingot merge base mixed --adapter style=0.7 --adapter facts=0.3", "two adapters, weighted");
  verb.example("ingot merge base.gguf merged --adapter out/adapter --dtype bf16",
               "of a quantized GGUF: its values, then the update");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
