#include "ingot/serve/served_model.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "ingot/infer/file_identity.h"
#include "ingot/serve/api_error.h"

namespace ingot::serve {

std::string name_of_path(const std::string& text) {
  std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

std::vector<std::string> names_of(const ServedModelOptions& options) {
  return options.names.empty() ? std::vector{name_of_path(options.session.model)} : options.names;
}

ServedModel::ServedModel(const ServedModelOptions& options)
    : session_(options.session),
      names_(names_of(options)),
      created_(std::time(nullptr)),
      defaults_(session_.options({.sampling = {.temperature = 1.0}, .speculate = options.speculate})),
      scheduler_(session_.engine(), session_.tokenizer(), options.scheduler) {
  for (const NamedAdapter& adapter : options.session.named_adapters) {
    INGOT_CHECK(std::ranges::find(names_, adapter.name) == names_.end(),
                InvalidConfig("adapter", "'" + adapter.name + "' is the name of the model itself"));
  }
  try {
    chat_.emplace(session_.tokenizer(), name());
  } catch (const Error& error) {
    no_chat_ = error.what();
  }
}

// One that was unloaded a moment ago is refused with the request, which never gets the model alone.
std::string ServedModel::adapter(const std::string& name) const {
  return std::ranges::find(names_, name) != names_.end() ? std::string{} : name;
}

void ServedModel::load_adapter(const NamedAdapter& adapter) {
  INGOT_CHECK(session_.adapters() != nullptr,
              InvalidConfig("adapter", "cannot be loaded: this model was opened without load_adapters"));
  session_.adapters()->load(adapter, infer::model_identity(adapter.path));
  scheduler_.settle_adapters();
}

bool ServedModel::reload_adapter(const NamedAdapter& adapter) {
  const bool done = session_.adapters()->reload(adapter, infer::model_identity(adapter.path));
  scheduler_.settle_adapters();
  return done;
}

void ServedModel::unload_adapter(const NamedAdapter& adapter) {
  if (session_.adapters() == nullptr) return;
  if (session_.adapters()->unload(adapter.name, adapter.number)) scheduler_.settle_adapters();
}

std::string ServedModel::default_adapter() const {
  const std::lock_guard lock(mutex_);
  if (default_adapter_ == 0 || session_.adapters() == nullptr) return {};
  for (const NamedAdapter& known : session_.adapters()->known())
    if (known.number == default_adapter_) return known.name;
  return {};
}

void ServedModel::set_default_adapter(const std::string& name) {
  std::uint64_t number = 0;
  if (!name.empty() && session_.adapters() != nullptr) {
    for (const NamedAdapter& known : session_.adapters()->known())
      if (known.name == name) number = known.number;
  }
  const std::lock_guard lock(mutex_);
  default_adapter_ = number;
}

const infer::ChatPrompt& ServedModel::chat() const {
  if (!chat_) throw ApiError(400, no_chat_, "messages", "no_chat_template");
  return *chat_;
}

}  // namespace ingot::serve
