#include "ingot/models/adapter/use_adapters.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/models/adapter/peft.h"

namespace ingot {
namespace {

void check_is_adapter(const std::string& path) {
  INGOT_CHECK(is_peft_adapter(path),
              IoError(path, "is not an adapter: a directory with adapter_config.json was expected"));
}

// Apart from the adapters that are always on.
std::string parameter_name(const NamedAdapter& adapter) { return "named:" + adapter.name; }

}  // namespace

AdapterChoice AdapterChoice::parse(std::string_view text, const std::string& option) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return {.path = std::string(text)};
  AdapterChoice choice{.path = std::string(text.substr(0, equals))};
  const std::string_view number = text.substr(equals + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), choice.weight);
  INGOT_CHECK(error == std::errc() && end == number.data() + number.size() && std::isfinite(choice.weight),
              InvalidConfig(option, fmt::format("'{}' is not a number; write DIRECTORY=WEIGHT", number)));
  return choice;
}

NamedAdapter NamedAdapter::parse(std::string_view text, const std::string& option) {
  const std::size_t equals = text.find('=');
  INGOT_CHECK(equals != text.npos && equals > 0 && equals + 1 < text.size(),
              InvalidConfig(option, fmt::format("'{}' names no adapter; write NAME=DIRECTORY", text)));
  return {.name = std::string(text.substr(0, equals)), .path = std::string(text.substr(equals + 1))};
}

void use_adapters(LanguageModel& model, std::span<const AdapterChoice> adapters) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  std::size_t number = 0;
  for (const AdapterChoice& adapter : adapters) {
    check_is_adapter(adapter.path);
    // One adapter may be given twice.
    read_peft_adapter({model, map}, adapter.path, fmt::format("{}:{}", number++, adapter.path),
                      adapter.weight);
  }
}

void add_named_adapters(LanguageModel& model, std::span<const NamedAdapter> adapters) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const NamedAdapter& adapter = adapters[i];
    check_is_adapter(adapter.path);
    for (std::size_t j = 0; j < i; ++j) {
      INGOT_CHECK(adapters[j].name != adapter.name,
                  InvalidConfig("adapter", fmt::format("the name '{}' is given twice", adapter.name)));
    }
    const LoraConfig config = read_peft_adapter({model, map}, adapter.path, parameter_name(adapter));
    INGOT_CHECK(
        config.modules_to_save.empty(),
        InvalidConfig("adapter", fmt::format("{} replaces '{}' as a whole, so it cannot be switched while "
                                             "the model is in use: put it on for good, or merge it",
                                             adapter.path, config.modules_to_save.front())));
    enable_adapter(model, parameter_name(adapter), false);
  }
}

void use_named_adapter(LanguageModel& model, std::span<const NamedAdapter> adapters, std::string_view name) {
  for (const NamedAdapter& adapter : adapters)
    enable_adapter(model, parameter_name(adapter), adapter.name == name);
}

}  // namespace ingot
