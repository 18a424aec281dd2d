#include "ingot/serve/served_model.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

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
    adapters_.push_back(adapter.name);
  }
  try {
    chat_.emplace(session_.tokenizer(), name());
  } catch (const Error& error) {
    no_chat_ = error.what();
  }
}

const std::string& ServedModel::adapter(const std::string& name) const {
  static const std::string kNone;
  const auto found = std::ranges::find(adapters_, name);
  return found != adapters_.end() ? *found : kNone;
}

const infer::ChatPrompt& ServedModel::chat() const {
  if (!chat_) throw ApiError(400, no_chat_, "messages", "no_chat_template");
  return *chat_;
}

}  // namespace ingot::serve
