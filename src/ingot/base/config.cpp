#include "ingot/base/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config_tree.h"
#include "ingot/base/config_values.h"
#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/suggest.h"

namespace ingot {

using config_detail::bounds_text;
using config_detail::Document;
using config_detail::expected_kind;
using config_detail::kIsVector;
using config_detail::Node;
using config_detail::parse_value;
using config_detail::value_text;
using config_detail::within;

namespace {

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::scalar:
      return fmt::format("'{}'", node.text);
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a mapping";
  }
  return "?";
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size();
}

/// A whole number may be written with an exponent: 1e6 steps.
template <class T>
bool parse_whole(std::string_view text, T& value) {
  if (parse_number(text, value)) return true;
  double number = 0;
  if (text.find_first_of("eE") == std::string_view::npos || !parse_number(text, number)) return false;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (number != std::floor(number) || std::abs(number) > kExact) return false;
  if (std::is_unsigned_v<T> && number < 0) return false;
  const auto wide = static_cast<std::int64_t>(number);
  value = static_cast<T>(wide);
  return std::cmp_equal(value, wide);
}

template <class T>
bool parse_scalar(const Node& node, T& value) {
  if (node.kind != Node::Kind::scalar) return false;
  if constexpr (std::is_same_v<T, std::string>) {
    value = node.text;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    const auto flag = parse_bool(node.text);
    value = flag.value_or(false);
    return flag.has_value();
  } else if constexpr (std::is_integral_v<T>) {
    return parse_whole(node.text, value);
  } else {
    return parse_number(node.text, value) && std::isfinite(value);
  }
}

}  // namespace

ConfigReader::ConfigReader(std::shared_ptr<Document> document, Node* node, std::string path)
    : document_(std::move(document)), node_(node), path_(std::move(path)) {}

std::string ConfigReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

Node* ConfigReader::find(std::string_view key) const {
  if (std::find(node_->asked.begin(), node_->asked.end(), key) == node_->asked.end()) {
    node_->asked.emplace_back(key);
  }
  Node* node = node_->find(key);
  if (node != nullptr) node->read = true;
  return node != nullptr && node->kind != Node::Kind::null ? node : nullptr;
}

bool ConfigReader::has(std::string_view key) const {
  const Node* node = node_->find(key);
  return node != nullptr && node->kind != Node::Kind::null;
}

std::string ConfigReader::where(std::string_view key) const {
  if (const Node* node = node_->find(key)) return document_->place(*node);
  // Of a key that is missing: the mapping that lacks it, where that has a line.
  return path_.empty() || node_->line == 0 ? document_->name : document_->place(*node_);
}

void ConfigReader::fail(std::string_view key, std::string_view problem) const {
  throw InvalidConfig(path_of(key), fmt::format("{} ({})", problem, where(key)));
}

template <class T>
T ConfigReader::get(std::string_view key, T fallback, Bounds bounds) const {
  const Node* node = find(key);
  T value = std::move(fallback);
  const auto read_one = [&]<class V>(const Node& from, V& to) {
    if (!parse_scalar(from, to)) {
      fail(key, fmt::format("expected {}, got {}", expected_kind<V>(), shown(from)));
    }
    if constexpr (std::is_arithmetic_v<V> && !std::is_same_v<V, bool>) {
      if (!within(to, bounds)) fail(key, fmt::format("must be {}, got {}", bounds_text(bounds), to));
    }
  };
  if (node != nullptr) {
    if constexpr (kIsVector<T>) {
      value.clear();
      if (node->kind == Node::Kind::list) {
        for (const auto& item : node->items) read_one(*item.second, value.emplace_back());
      } else {
        read_one(*node, value.emplace_back());
      }
    } else {
      read_one(*node, value);
    }
  }
  document_->record(path_of(key), value_text(value));
  return value;
}

template <class T>
T ConfigReader::require(std::string_view key, Bounds bounds) const {
  if (find(key) == nullptr) fail(key, "is required but not given");
  return get(key, T(), bounds);
}

// Explicitly listed so that yaml-cpp, fmt and these bodies stay out of every file that reads a configuration.
#define INGOT_CONFIG_TYPE(...)                                                                      \
  template __VA_ARGS__ ConfigReader::get<__VA_ARGS__>(std::string_view, __VA_ARGS__, Bounds) const; \
  template __VA_ARGS__ ConfigReader::require<__VA_ARGS__>(std::string_view, Bounds) const;
INGOT_CONFIG_TYPE(bool)
INGOT_CONFIG_TYPE(int)
INGOT_CONFIG_TYPE(std::int64_t)
INGOT_CONFIG_TYPE(std::uint64_t)
INGOT_CONFIG_TYPE(float)
INGOT_CONFIG_TYPE(double)
INGOT_CONFIG_TYPE(std::string)
INGOT_CONFIG_TYPE(std::vector<std::int64_t>)
INGOT_CONFIG_TYPE(std::vector<double>)
INGOT_CONFIG_TYPE(std::vector<std::string>)
#undef INGOT_CONFIG_TYPE

namespace {

/// A bare scalar by the core schema of YAML 1.2. Infinity and NaN, which JSON lacks, stay text.
nlohmann::ordered_json core_value(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  std::int64_t whole = 0;
  for (const auto& [prefix, base] : {std::pair("0x", 16), {"0o", 8}}) {
    if (!text.starts_with(prefix)) continue;
    const auto [end, failure] = std::from_chars(text.data() + 2, text.data() + text.size(), whole, base);
    if (failure == std::errc() && end == text.data() + text.size()) return whole;
  }
  double number = 0;
  if (parse_number(text, whole)) return whole;
  const bool is_number = text.find_first_not_of("+-.0123456789eE") == std::string::npos;
  if (is_number && parse_number(text, number) && std::isfinite(number)) return number;
  return text;
}

nlohmann::ordered_json free_value(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return nullptr;
    case Node::Kind::scalar:
      return node.quoted ? nlohmann::ordered_json(node.text) : core_value(node.text);
    case Node::Kind::list: {
      auto list = nlohmann::ordered_json::array();
      for (const auto& item : node.items) list.push_back(free_value(*item.second));
      return list;
    }
    case Node::Kind::map: {
      auto object = nlohmann::ordered_json::object();
      for (const auto& [key, item] : node.items) object[key] = free_value(*item);
      return object;
    }
  }
  return nullptr;
}

/// Whether a scalar means the same with and without quotes, or had none.
bool is_plain(const Node& node) {
  if (node.kind != Node::Kind::scalar) return false;
  const bool null = node.text.empty() || node.text == "~" || node.text == "null";
  return !node.quoted || (!null && core_value(node.text).is_string());
}

}  // namespace

std::vector<FreeValue> ConfigReader::require_free(std::string_view key) const {
  const Node* node = find(key);
  if (node == nullptr) fail(key, "is required but not given");
  std::vector<FreeValue> values;
  const auto add = [&values](const Node& item) {
    const std::string json = dump_json(free_value(item));
    values.push_back({is_plain(item) ? item.text : json, json});
  };
  if (node->kind == Node::Kind::list) {
    for (const auto& item : node->items) add(*item.second);
  } else {
    add(*node);
  }
  std::vector<std::string> items;
  items.reserve(values.size());
  for (const FreeValue& value : values) items.push_back(value.json);
  document_->record(path_of(key), fmt::format("[{}]", fmt::join(items, ", ")));
  return values;
}

std::string ConfigReader::choice(std::string_view key, std::string_view fallback,
                                 const std::vector<std::string>& allowed) const {
  std::string value = get(key, std::string(fallback));
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    fail(key, fmt::format("must be one of {}, got '{}'{}", fmt::join(allowed, ", "), value,
                          did_you_mean(value, allowed)));
  }
  return value;
}

bool ConfigReader::is_mapping(std::string_view key) const {
  const Node* node = node_->find(key);
  return node != nullptr && node->kind == Node::Kind::map;
}

ConfigReader ConfigReader::section(std::string_view key) const {
  Node* node = find(key);
  if (node == nullptr) {
    node = document_->absent.emplace_back(std::make_unique<Node>()).get();
    node->kind = Node::Kind::map;
  }
  if (node->kind != Node::Kind::map) {
    fail(key, fmt::format("expected a mapping of keys to values, got {}", shown(*node)));
  }
  return {document_, node, path_of(key)};
}

std::vector<ConfigReader> ConfigReader::sections(std::string_view key) const {
  const Node* node = find(key);
  if (node == nullptr) return {};
  if (node->kind == Node::Kind::map) return {section(key)};
  if (node->kind != Node::Kind::list)
    fail(key, fmt::format("expected a list of mappings, got {}", shown(*node)));
  std::vector<ConfigReader> result;
  for (const auto& item : node->items) {
    const std::string path = fmt::format("{}.{}", path_of(key), result.size());
    INGOT_CHECK(item.second->kind == Node::Kind::map,
                InvalidConfig(path, fmt::format("expected a mapping of keys to values, got {} ({})",
                                                shown(*item.second), document_->place(*item.second))));
    item.second->read = true;
    result.push_back({document_, item.second.get(), path});
  }
  return result;
}

void ConfigReader::alias(std::string_view old, std::string_view name) const {
  for (auto& [key, node] : node_->items) {
    if (key != old) continue;
    if (has(name)) fail(old, fmt::format("is another name of '{}', which is given too", name));
    std::erase_if(node_->items, [&](const auto& item) { return item.first == name; });
    for (auto& item : node_->items) {
      if (item.first == old) item.first = name;
    }
    return;
  }
}

namespace {

void mark_read(Node& node) {
  node.read = true;
  for (auto& [name, item] : node.items) mark_read(*item);
}

}  // namespace

std::string ConfigReader::skip(std::string_view key) const {
  Node* node = find(key);
  if (node == nullptr) return {};
  mark_read(*node);
  if (node->kind == Node::Kind::scalar) return node->text;
  if (node->items.empty()) return {};
  return node->kind == Node::Kind::list ? "[...]" : "{...}";
}

void ConfigReader::put(std::string_view key, std::string_view value) const {
  Node* node = node_->find(key);
  if (node == nullptr) {
    node = node_->items.emplace_back(std::string(key), std::make_unique<Node>()).second.get();
    node->line = node_->line;
  }
  node->kind = Node::Kind::scalar;
  node->text = value;
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, node] : node_->items) {
    node->read = true;
    names.push_back(key);
  }
  return names;
}

Config::Config(std::shared_ptr<Document> document) : document_(std::move(document)) {}

Config Config::load(const std::string& path) {
  return parse(read_file(path), path == "-" ? "standard input" : path);
}

Config Config::parse(std::string_view yaml, std::string name) {
  auto document = std::make_shared<Document>();
  document->name = std::move(name);
  parse_yaml(*document, yaml);
  return Config(std::move(document));
}

namespace {

// A key may hold dots itself (a study's space has names such as "architecture.hidden_size"): of the keys that
// are there the longest is meant, and where none is, each dot goes one level down.
std::size_t end_of_key(const Node& node, std::string_view path, std::size_t start) {
  for (std::size_t end = path.size(); end > start; end = path.rfind('.', end - 1)) {
    if (end == std::string_view::npos || end < start) break;
    if (node.find(path.substr(start, end - start)) != nullptr) return end;
  }
  return std::min(path.find('.', start), path.size());
}

}  // namespace

void Config::set(std::string_view assignment, const std::string& option) {
  const std::size_t equals = assignment.find('=');
  const std::string_view path = assignment.substr(0, equals);
  INGOT_CHECK(equals != std::string_view::npos && !path.empty() && path.front() != '.' &&
                  path.back() != '.' && path.find("..") == std::string_view::npos,
              InvalidConfig(option, fmt::format("expected key=value (a.b=value), got '{}'", assignment)));
  Node* node = &document_->root;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = end_of_key(*node, path, start);
    const std::string name(path.substr(start, end - start));
    Node* next = node->find(name);
    if (node->kind == Node::Kind::list) {
      std::size_t index = 0;
      INGOT_CHECK(parse_number(name, index) && index < node->items.size(),
                  InvalidConfig(std::string(path), fmt::format("'{}' is not an item of a list of {} ({})",
                                                               name, node->items.size(), option)));
      next = node->items[index].second.get();
    }
    INGOT_CHECK(node->kind != Node::Kind::scalar,
                InvalidConfig(std::string(path), fmt::format("'{}' cannot be set inside the value {} ({})",
                                                             name, shown(*node), option)));
    if (next == nullptr) {
      node->kind = Node::Kind::map;
      next = node->items.emplace_back(name, std::make_unique<Node>()).second.get();
      next->option = option;
    }
    node = next;
    start = end + 1;
  }
  *node = std::move(*parse_value(assignment.substr(equals + 1), std::string(path), option));
}

ConfigReader Config::root() const { return {document_, &document_->root, ""}; }

namespace {

constexpr std::size_t kMostUnknown = 20;  // listed: to find what each may have meant takes a look at all

struct Unknown {
  std::string path, text;
};

/// Where else a key would have been right: the paths of mappings that were asked for it.
void sections_that_ask(const Node& node, const std::string& path, std::string_view key,
                       std::vector<std::string>& found) {
  if (std::find(node.asked.begin(), node.asked.end(), key) != node.asked.end()) found.push_back(path);
  for (const auto& [name, item] : node.items) {
    if (item->kind == Node::Kind::map) {
      sections_that_ask(*item, path.empty() ? name : path + "." + name, key, found);
    }
  }
}

void find_unknown(const Document& document, const Node& node, const std::string& path,
                  std::vector<Unknown>& unknown) {
  std::size_t index = 0;
  for (const auto& [name, item] : node.items) {
    if (unknown.size() > kMostUnknown) return;
    const std::string own = node.kind == Node::Kind::list ? std::to_string(index++) : name;
    const std::string full = path.empty() ? own : path + "." + own;
    if (item->merged && !item->read) continue;
    if (node.kind == Node::Kind::list || item->read) {
      // A list that was read as values has no keys to miss; only mappings that were opened are looked into.
      if (item->kind == Node::Kind::list || !item->asked.empty())
        find_unknown(document, *item, full, unknown);
      continue;
    }
    std::string hint = did_you_mean(name, node.asked);
    std::vector<std::string> elsewhere;
    sections_that_ask(document.root, "", name, elsewhere);
    if (!elsewhere.empty()) {
      hint = elsewhere.front().empty() ? "; it belongs at the top level"
                                       : fmt::format("; it belongs under '{}'", elsewhere.front());
    }
    unknown.push_back({full, fmt::format("unknown key ({}){}", document.place(*item), hint)});
  }
}

// Whether the file or an option holds a value at the path; an item of a list is named by its number.
bool is_given(const Node& root, std::string_view path) {
  const Node* node = &root;
  for (std::size_t start = 0; node != nullptr && start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    const std::string_view key = path.substr(start, end - start);
    if (node->kind == Node::Kind::list) {
      std::size_t index = 0;
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), index);
      const bool there = parsed.ec == std::errc{} && index < node->items.size();
      node = there ? node->items[index].second.get() : nullptr;
    } else {
      node = node->find(key);
    }
    start = end + 1;
  }
  return node != nullptr && node->kind != Node::Kind::null;
}

}  // namespace

void Config::finish() const {
  std::vector<Unknown> unknown;
  find_unknown(*document_, document_->root, "", unknown);
  if (unknown.empty()) return;
  std::string text = printable(unknown.front().text);
  for (std::size_t i = 1; i < std::min(unknown.size(), kMostUnknown); ++i) {
    text += fmt::format("\n  {}: {}", printable(unknown[i].path), printable(unknown[i].text));
  }
  if (unknown.size() > kMostUnknown) text += "\n  and more";
  throw in_lines(InvalidConfig(unknown.front().path, text));
}

std::vector<Setting> Config::effective() const {
  std::vector<Setting> result;
  for (const auto& entry : document_->effective)
    result.push_back({entry.path, entry.value, is_given(document_->root, entry.path)});
  return result;
}

namespace {

/// Effective values put back into the nesting that their paths describe.
struct DumpNode {
  std::string value;
  std::vector<std::pair<std::string, std::unique_ptr<DumpNode>>> items;

  DumpNode& item(std::string_view name) {
    for (auto& [key, node] : items) {
      if (key == name) return *node;
    }
    return *items.emplace_back(std::string(name), std::make_unique<DumpNode>()).second;
  }
  bool is_list() const {  // no mapping of ours has a number for a key
    return !items.empty() && items.front().first == "0";
  }
};

void write_items(const DumpNode& node, const std::string& indent, std::string first_indent,
                 std::string& out) {
  for (const auto& [name, item] : node.items) {
    out += std::exchange(first_indent, indent);
    if (node.is_list()) {
      out += "- ";
      write_items(*item, indent + "  ", "", out);
    } else if (item->items.empty()) {
      out += fmt::format("{}: {}\n", name, item->value);
    } else {
      out += name + ":\n";
      write_items(*item, indent + "  ", indent + "  ", out);
    }
  }
}

}  // namespace

std::string Config::dump() const {
  DumpNode root;
  for (const auto& entry : document_->effective) {
    DumpNode* node = &root;
    for (std::size_t start = 0; start <= entry.path.size();) {
      const std::size_t end = std::min(entry.path.find('.', start), entry.path.size());
      node = &node->item(std::string_view(entry.path).substr(start, end - start));
      start = end + 1;
    }
    node->value = entry.value;
  }
  std::string out;
  write_items(root, "", "", out);
  return out;
}

}  // namespace ingot
