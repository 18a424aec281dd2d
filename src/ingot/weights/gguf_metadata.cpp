#include "ingot/weights/gguf_metadata.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

constexpr std::size_t kShownItems = 16;

template <class T>
std::string joined(GgufType type, const std::vector<T>& items) {
  if constexpr (std::is_same_v<T, GgufValue>) {
    std::vector<std::string> texts;
    texts.reserve(items.size());
    for (const GgufValue& item : items) texts.push_back(item.to_string());
    return fmt::format("{}", fmt::join(texts, ", "));
  } else {
    if constexpr (std::is_same_v<T, double>) {  // an f32 of 1e-5 is not the f64 of that text
      if (type == GgufType::f32) {
        return fmt::format("{}", fmt::join(std::vector<float>(items.begin(), items.end()), ", "));
      }
    }
    return fmt::format("{}", fmt::join(items, ", "));
  }
}

}  // namespace

std::string_view name(GgufType type) {
  static constexpr std::array<std::string_view, 13> kNames{
      "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
  return kNames.at(static_cast<std::size_t>(type));
}

GgufValue GgufValue::of_u16(std::uint16_t value) {
  return {GgufType::u16, false, std::vector<std::uint64_t>{value}};
}
GgufValue GgufValue::of_i32(std::int32_t value) {
  return {GgufType::i32, false, std::vector<std::int64_t>{value}};
}
GgufValue GgufValue::of_u32(std::uint32_t value) {
  return {GgufType::u32, false, std::vector<std::uint64_t>{value}};
}
GgufValue GgufValue::of_f32(float value) {
  return {GgufType::f32, false, std::vector<double>{static_cast<double>(value)}};
}
GgufValue GgufValue::of_bool(bool value) {
  return {GgufType::boolean, false, std::vector<std::uint64_t>{value ? 1U : 0U}};
}
GgufValue GgufValue::of_string(std::string value) {
  return {GgufType::string, false, std::vector<std::string>{std::move(value)}};
}
GgufValue GgufValue::of_strings(std::vector<std::string> values) {
  return {GgufType::string, true, std::move(values)};
}
GgufValue GgufValue::of_i32s(const std::vector<std::int32_t>& values) {
  return {GgufType::i32, true, std::vector<std::int64_t>(values.begin(), values.end())};
}
GgufValue GgufValue::of_f32s(const std::vector<float>& values) {
  return {GgufType::f32, true, std::vector<double>(values.begin(), values.end())};
}

std::size_t GgufValue::size() const {
  return std::visit([](const auto& list) { return list.size(); }, items);
}

std::string GgufValue::to_string() const {
  if (is_array && size() > kShownItems) return fmt::format("[{} × {}]", size(), name(type));
  const std::string text = std::visit([this](const auto& list) { return joined(type, list); }, items);
  if (is_array) return "[" + text + "]";
  if (type == GgufType::boolean) return text == "0" ? "false" : "true";
  return text;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = std::ranges::find(entries_, key, &Entry::first);
  return found == entries_.end() ? nullptr : &found->second;
}

void GgufMetadata::set(std::string key, GgufValue value) {
  const auto found = std::ranges::find(entries_, key, &Entry::first);
  if (found == entries_.end()) {
    append(std::move(key), std::move(value));
  } else {
    found->second = std::move(value);
  }
}

void GgufMetadata::erase(std::string_view key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.first == key; });
}

void GgufMetadata::wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const {
  throw FormatError(
      file_, -1, std::string(key),
      fmt::format("is {}{}; expected {}", value.is_array ? "an array of " : "", name(value.type), wanted));
}

std::optional<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array && value->type != GgufType::boolean) {
    if (const auto* i = std::get_if<std::vector<std::int64_t>>(&value->items)) return i->front();
    if (const auto* u = std::get_if<std::vector<std::uint64_t>>(&value->items)) {
      if (u->front() <= INT64_MAX) return static_cast<std::int64_t>(u->front());
    }
  }
  wrong_type(key, *value, "an integer");
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array) {
    if (const auto* f = std::get_if<std::vector<double>>(&value->items)) return f->front();
    return static_cast<double>(*integer(key));
  }
  wrong_type(key, *value, "a number");
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != GgufType::boolean) wrong_type(key, *value, "a boolean");
  return std::get<std::vector<std::uint64_t>>(value->items).front() != 0;
}

std::optional<std::string> GgufMetadata::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != GgufType::string) wrong_type(key, *value, "a string");
  return std::get<std::vector<std::string>>(value->items).front();
}

const std::vector<std::string>* GgufMetadata::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array || value->type != GgufType::string) wrong_type(key, *value, "an array of strings");
  return &std::get<std::vector<std::string>>(value->items);
}

std::optional<std::vector<std::int64_t>> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array && value->type != GgufType::boolean) {
    if (const auto* i = std::get_if<std::vector<std::int64_t>>(&value->items)) return *i;
    if (const auto* u = std::get_if<std::vector<std::uint64_t>>(&value->items)) {
      return std::vector<std::int64_t>(u->begin(), u->end());
    }
  }
  wrong_type(key, *value, "an array of integers");
}

std::optional<std::vector<double>> GgufMetadata::numbers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array) {
    if (const auto* f = std::get_if<std::vector<double>>(&value->items)) return *f;
  }
  wrong_type(key, *value, "an array of floating-point numbers");
}

}  // namespace ingot
