#include "ingot/export/merge.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/generation_file.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// The chat template of a directory; empty where it has none.
std::string chat_template_of(const fs::path& directory) {
  const fs::path file = directory / "chat_template.jinja", config = directory / "tokenizer_config.json";
  if (fs::is_regular_file(file)) return read_file(file.string());
  if (!fs::is_regular_file(config)) return {};
  const auto json = parse_json<nlohmann::json>(read_file(config.string()), config.string());
  const auto found = json.find("chat_template");
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A model speaks as its adapter was trained to: the template beside the last one that has one is the model's.
void copy_chat_template(const std::vector<AdapterChoice>& adapters, const AtomicDirectory& out) {
  std::string source;
  for (const AdapterChoice& adapter : adapters)
    if (std::string own = chat_template_of(adapter.path); !own.empty()) source = std::move(own);
  if (!source.empty()) write_file_atomically(out.file("chat_template.jinja"), source);
}

// Whether an adapter has rows of tokens, in a matrix of its own perhaps.
bool may_bring_tokens(const AdapterChoice& adapter) {
  if (!is_peft_adapter(adapter.path)) return false;
  const std::string path = (fs::path(adapter.path) / "adapter_config.json").string();
  const LoraConfig config = LoraConfig::from_json(read_file(path), path);
  return !config.trainable_token_indices.empty() || !config.modules_to_save.empty();
}

// Adapters may bring tokens that the model's own tokenizer lacks, and one of them may end its texts.
void keep_new_tokens(const MergeOptions& o, const AtomicDirectory& out) {
  const text::Tokenizer tokenizer = open_tokenizer(o.model, o.adapters);
  if (tokenizer.vocab_size() <= open_tokenizer(o.model).vocab_size()) return;
  tokenizer.save_directory(out.path());
  write_file_atomically(out.file("generation_config.json"),
                        infer::kept_generation_config(o.model, tokenizer));
}

}  // namespace

WrittenModel merge_model(const MergeOptions& o, const WriteProgress& progress) {
  check_destination(o.model, o.destination, {});
  const ModelCheckpoint checkpoint = open_checkpoint(o.model);
  LoadOptions options{.copy = false, .trainable = false};
  if (!o.dtype.empty()) options.dtype = parse_dtype(o.dtype);
  const auto model = load_language_model(checkpoint, options);
  const std::int64_t tokens = model->config.vocab_size;
  use_adapters(*model, o.adapters);
  const bool grown = model->config.vocab_size > tokens;
  merge_adapters(*model);

  std::vector<StoredTensor> tensors;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] :
       export_tensors(LanguageModel::weight_map(model->config), parameter_map(*model))) {
    bytes += tensor.nbytes();
    tensors.push_back(StoredTensor::of(name, tensor));
  }
  require_disk_space(o.destination, bytes, "the merged model");
  const WrittenCallback written = count_written(progress, bytes);
  for (StoredTensor& tensor : tensors) {
    if (!written) break;
    tensor.values = [values = tensor.values, &written] {
      Tensor made = values();
      written(made.nbytes());
      return made;
    };
  }
  AtomicDirectory out(o.destination);
  const std::optional<DType> dtype = o.dtype.empty() ? std::nullopt : std::optional(parse_dtype(o.dtype));
  std::string config = config_with_dtype(checkpoint.config_json, dtype);
  if (grown) config = config_with_vocabulary(config, model->config.vocab_size);
  write_file_atomically(out.file("config.json"), config);
  copy_companions(o.model, out.path());
  const bool new_tokens = grown || std::ranges::any_of(o.adapters, may_bring_tokens);
  if (new_tokens && has_tokenizer(o.model)) keep_new_tokens(o, out);
  copy_chat_template(o.adapters, out);
  write_safetensors_directory(out.path(), tensors);
  out.commit();
  return {.path = o.destination, .bytes = bytes, .stand_ins = {}};
}

}  // namespace ingot
