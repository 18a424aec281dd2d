#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/setting.h"

namespace ingot {

/// What a number may be.
struct Bounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is out
  bool below_max = false;  // max itself is out
};
constexpr Bounds at_least(double min) { return {.min = min}; }
constexpr Bounds positive() { return {.min = 0, .above_min = true}; }
constexpr Bounds between(double min, double max) { return {.min = min, .max = max}; }
/// [0, 1): a dropout rate, a beta.
constexpr Bounds fraction() { return {.min = 0, .max = 1, .below_max = true}; }

/// A value whose type is free: as a person wrote it, and as JSON. Types are those of YAML's core schema; what
/// is quoted is text, and keeps its quotes in `text` where it would be something else without ("null", "16").
struct FreeValue {
  std::string text;
  std::string json;
};

namespace config_detail {
struct Document;
struct Node;
}  // namespace config_detail

/// Reads one mapping of a configuration, key by key. Every error is an InvalidConfig with the dotted path of
/// the key, what was found, what was expected, and the file and line. Cheap to copy; keeps its document
/// alive.
///
/// T is one of bool, int, std::int64_t, std::uint64_t, float, double, std::string, or a std::vector of
/// std::int64_t, double or std::string (one bare value counts as a list of one).
class ConfigReader {
 public:
  /// Whether the key is there and not null.
  bool has(std::string_view key) const;
  /// Where the key stands, for messages: "train.yaml, line 7", "--set", or the file alone.
  std::string where(std::string_view key) const;

  /// The value, or `fallback` where the key is absent or null.
  template <class T>
  T get(std::string_view key, T fallback, Bounds bounds = {}) const;
  std::string get(std::string_view key, const char* fallback) const {
    return get(key, std::string(fallback));
  }
  /// The value; absent or null is an error.
  template <class T>
  T require(std::string_view key, Bounds bounds = {}) const;
  /// The items of a list that keep their types, null among them; one bare value counts as a list of one.
  /// Absent, it is an error.
  std::vector<FreeValue> require_free(std::string_view key) const;
  /// A word out of a list; anything else is an error that suggests the nearest.
  std::string choice(std::string_view key, std::string_view fallback,
                     const std::vector<std::string>& allowed) const;

  /// Whether the value is a mapping. Does not count as reading it.
  bool is_mapping(std::string_view key) const;
  /// A mapping below this one; absent or null, it reads as empty.
  ConfigReader section(std::string_view key) const;
  /// A list of mappings (`datasets`); absent or null, it is empty. One bare mapping counts as a list of one.
  std::vector<ConfigReader> sections(std::string_view key) const;

  /// Another name under which people know a key: `old` is read as `name`. Both at once is an error. To be
  /// called before the key is read.
  void alias(std::string_view old, std::string_view name) const;

  /// Counts the key and all below it as read, whatever it holds. Its value, or "[...]" and "{...}" for a list
  /// and a mapping; empty where it is absent, null, or an empty list or mapping.
  std::string skip(std::string_view key) const;
  /// Sets a value instead of the file, for another key that says the same in its own way.
  void put(std::string_view key, std::string_view value) const;

  /// The keys that are there, in the order of the file, for a mapping whose keys are free. Counts as reading
  /// them.
  std::vector<std::string> keys() const;

  /// For a check of one's own: throws InvalidConfig for the key, with its location added.
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;

 private:
  friend class Config;
  ConfigReader(std::shared_ptr<config_detail::Document> document, config_detail::Node* node,
               std::string path);
  config_detail::Node* find(std::string_view key) const;
  std::string path_of(std::string_view key) const;

  std::shared_ptr<config_detail::Document> document_;
  config_detail::Node* node_;
  std::string path_;
};

/// A YAML file (JSON is YAML too), with values set over it from the command line.
///
///   Config config = Config::load("train.yaml");
///   config.set("optimizer.learning_rate=1e-3");
///   ConfigReader root = config.root();
///   options.steps = root.get("max_steps", std::int64_t{-1}, at_least(-1));
///   ...
///   config.finish();  // every key that nothing asked for is an error now
class Config {
 public:
  static Config load(const std::string& path);
  /// `name` stands for the file in messages.
  static Config parse(std::string_view yaml, std::string name = "configuration");

  /// "a.b=value", the value being YAML ("[1, 2]", "true", "null"); list items by number
  /// ("datasets.0.path=x"). Mappings on the way are made; InvalidConfig where something else is in the way.
  /// Messages on the value say that it comes from `option`.
  void set(std::string_view assignment, const std::string& option = "--set");

  ConfigReader root() const;
  /// InvalidConfig that lists every key nothing has asked for, each with its line and the key that was meant.
  void finish() const;

  /// The configuration as it took effect: every key read so far with its value, defaults included, as YAML.
  std::string dump() const;
  /// The same for a table, with what was given told from what is a default.
  std::vector<Setting> effective() const;

 private:
  explicit Config(std::shared_ptr<config_detail::Document> document);
  std::shared_ptr<config_detail::Document> document_;
};

}  // namespace ingot
