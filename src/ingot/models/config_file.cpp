#include "ingot/models/config_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/json_number.h"
#include "ingot/models/keras_hub.h"

namespace ingot {

struct ConfigFile::Contents {
  nlohmann::ordered_json json;
};

namespace {

// Python writes what JSON has no numbers for as Infinity, -Infinity and NaN: here the largest number, and a
// word that no number's field takes.
std::string without_python_numbers(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    const std::string_view rest = text.substr(i);
    if (!quoted && rest.starts_with("Infinity")) {
      out += "1.7976931348623157e308";
      i += std::string_view("Infinity").size() - 1;
    } else if (!quoted && rest.starts_with("NaN")) {
      out += "\"NaN\"";
      i += std::string_view("NaN").size() - 1;
    } else {
      out += c;
      if (quoted && c == '\\' && i + 1 < text.size()) out += text[++i];
    }
  }
  return out;
}

}  // namespace

ConfigFile::ConfigFile(std::string_view text, std::string path) : path_(std::move(path)) {
  nlohmann::ordered_json json = parse_json_or_discard<nlohmann::ordered_json>(text);
  if (json.is_discarded())
    json = parse_json<nlohmann::ordered_json>(without_python_numbers(text), path_, "config");
  INGOT_CHECK(json.is_object(), FormatError(path_, -1, "config", "is not a JSON object"));
  contents_ = std::make_shared<const Contents>(Contents{std::move(json)});
}

ConfigFile::ConfigFile(std::shared_ptr<const Contents> contents, std::string path)
    : contents_(std::move(contents)), path_(std::move(path)) {}

bool ConfigFile::has(const char* key) const {
  const auto found = contents_->json.find(key);
  return found != contents_->json.end() && !found->is_null();
}

bool ConfigFile::is_null(const char* key) const {
  const auto found = contents_->json.find(key);
  return found != contents_->json.end() && found->is_null();
}

namespace {

std::int64_t whole_number_of(const nlohmann::ordered_json& json, const char* key, const std::string& path) {
  const auto value = whole_number(json);
  INGOT_CHECK(value.has_value(),
              FormatError(path, -1, key, fmt::format("is {}; expected a whole number", excerpt(json, 60))));
  return *value;
}

}  // namespace

template <class T>
void ConfigFile::read_as(const char* key, T& value) const {
  if (!has(key)) return;
  const nlohmann::ordered_json& found = contents_->json[key];
  try {
    value = found.get<T>();
  } catch (const nlohmann::ordered_json::exception&) {
    throw FormatError(path_, -1, key, fmt::format("has the wrong type: {}", excerpt(found, 60)));
  }
}

void ConfigFile::read(const char* key, std::string& value) const { read_as(key, value); }
void ConfigFile::read(const char* key, bool& value) const { read_as(key, value); }
void ConfigFile::read(const char* key, std::int64_t& value) const {
  if (!has(key)) return;
  value = whole_number_of(contents_->json[key], key, path_);
}
void ConfigFile::read(const char* key, double& value) const { read_as(key, value); }
void ConfigFile::read(const char* key, std::vector<std::string>& value) const { read_as(key, value); }
void ConfigFile::read(const char* key, std::vector<std::int64_t>& value) const {
  if (!has(key)) return;
  const nlohmann::ordered_json& found = contents_->json[key];
  INGOT_CHECK(found.is_array(), FormatError(path_, -1, key, "has the wrong type: " + excerpt(found, 60)));
  value.clear();
  for (const auto& item : found) value.push_back(whole_number_of(item, key, path_));
}
void ConfigFile::read(const char* key, std::vector<double>& value) const { read_as(key, value); }
void ConfigFile::read(const char* key, std::vector<std::vector<std::int64_t>>& value) const {
  if (!has(key)) return;
  const nlohmann::ordered_json& found = contents_->json[key];
  const auto is_list = [](const nlohmann::ordered_json& item) { return item.is_array(); };
  INGOT_CHECK(found.is_array() && std::ranges::all_of(found, is_list),
              FormatError(path_, -1, key, "is not a list of lists: " + excerpt(found, 60)));
  value.clear();
  for (const auto& list : found) {
    std::vector<std::int64_t>& numbers = value.emplace_back();
    numbers.reserve(list.size());
    for (const auto& item : list) numbers.push_back(whole_number_of(item, key, path_));
  }
}

void ConfigFile::read_limits(const char* key, double& least, double& most) const {
  if (!has(key)) return;
  const nlohmann::ordered_json& found = contents_->json[key];
  INGOT_CHECK(found.is_array() && found.size() == 2 && found[0].is_number(),
              FormatError(path_, -1, key, "is not two numbers: " + excerpt(found, 60)));
  const nlohmann::ordered_json infinity{{"__float__", "Infinity"}};
  INGOT_CHECK(found[1].is_number() || found[1] == infinity,
              FormatError(path_, -1, key, "is not two numbers: " + excerpt(found, 60)));
  least = found[0].get<double>();
  // Python's bare Infinity is the largest number by now.
  const double limit = found[1] == infinity ? HUGE_VAL : found[1].get<double>();
  most = limit < std::numeric_limits<double>::max() ? limit : std::numeric_limits<double>::infinity();
}

void ConfigFile::read_first(const char* key, std::int64_t& value) const {
  std::vector<std::int64_t> all;
  read_list(key, all);
  if (!all.empty()) value = all.front();
}

void ConfigFile::read_same(const char* key, std::int64_t& value) const {
  std::vector<std::int64_t> all;
  read_list(key, all);
  if (all.empty()) return;
  INGOT_CHECK(std::ranges::count(all, all.front()) == std::ranges::ssize(all),
              NotImplemented(fmt::format("{}: '{}' that differs between layers", path_, key)));
  value = all.front();
}

template <class T>
void ConfigFile::read_list_as(const char* key, std::vector<T>& value) const {
  if (!has(key)) return;
  if (contents_->json[key].is_array()) return read(key, value);
  T one{};
  read(key, one);
  value = {one};
}

void ConfigFile::read_list(const char* key, std::vector<std::int64_t>& value) const {
  read_list_as(key, value);
}
void ConfigFile::read_list(const char* key, std::vector<std::string>& value) const {
  read_list_as(key, value);
}

void ConfigFile::read_dtype(DType& value) const {
  std::string text;
  read("torch_dtype", text);
  read("dtype", text);
  if (!text.empty()) value = parse_dtype(text);
}

std::optional<ConfigFile> ConfigFile::object(const char* key) const {
  const auto found = contents_->json.find(key);
  if (found == contents_->json.end() || found->is_null()) return std::nullopt;
  INGOT_CHECK(found->is_object(), FormatError(path_, -1, key, "is not a JSON object"));
  return ConfigFile(std::make_shared<const Contents>(Contents{*found}), path_);
}

ConfigFile ConfigFile::over(std::string_view defaults) const {
  return ConfigFile(defaults, path_).with(*this);
}

ConfigFile ConfigFile::with(const ConfigFile& object) const {
  Contents merged = *contents_;
  merged.json.update(object.contents_->json);
  return {std::make_shared<const Contents>(std::move(merged)), path_};
}

std::string config_path_in(const std::string& directory) {
  std::string usual = directory + "/config.json", google = fmt::format("{}/{}", directory, kGoogleBertConfig);
  const bool other = !std::filesystem::exists(usual) && std::filesystem::exists(google);
  return other ? google : usual;
}

std::string read_model_config(const std::string& path) {
  std::string text = read_file(path);
  return keras_hub_config(text, path).value_or(std::move(text));
}

std::string ConfigFile::text() const { return dump_json(contents_->json); }

std::string_view torch_name(DType dtype) {
  static constexpr std::array<std::string_view, 4> kTorchNames{"float32", "float64", "float16", "bfloat16"};
  return kTorchNames.at(static_cast<std::size_t>(dtype));
}

}  // namespace ingot
