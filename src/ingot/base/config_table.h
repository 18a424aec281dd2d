#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ingot/base/config.h"
#include "ingot/base/config_values.h"
#include "ingot/base/error.h"

namespace ingot {

/// What a row of a ConfigTable says about its key, beside its name and its member.
struct FieldOptions {
  std::vector<std::string> aliases{};  ///< other names under which people know it
  std::vector<std::string> choices{};  ///< the words it may be; empty: any value of its type
  Bounds bounds{};
  std::string unit{};          ///< "seconds", "tokens"
  std::string default_text{};  ///< where the default is not a value but a rule: "as num_epochs needs"
  std::string doc;             ///< one or two sentences, without the default
};

/// A row as the reference pages show it.
struct ConfigKey {
  std::string key;  ///< dotted path: "learning_rate", "trl.beta"
  std::vector<std::string> aliases;
  std::string kind;           ///< "a whole number, at least 1", "adamw, sgd or muon", "a list of text"
  std::string default_value;  ///< as YAML, or a rule in words
  std::string unit;
  std::string doc;
};
struct ConfigSection {
  std::string heading;
  std::vector<ConfigKey> keys;
};

namespace config_detail {
template <class T>
void check_value(std::string_view key, const T& value, const FieldOptions& options);
template <class T>
T read_value(const ConfigReader& reader, std::string_view key, T fallback, const FieldOptions& options);
template <class T>
std::string kind_text(const FieldOptions& options);
std::string default_text(std::string value, const FieldOptions& options);
}  // namespace config_detail

/// The keys of a configuration struct C, each in one row: its names, the member it sets, what it may be, what
/// it means. The row reads, checks and documents the key, so that a new key is one row and a member.
///
///     const ConfigTable<FitConfig> table{{"Training", {
///         {"epochs", &FitConfig::epochs, {.aliases = {"num_epochs"}, .bounds = at_least(1), .doc = "How
///         often ..."}},
///     }}};
template <class C>
class ConfigTable {
 public:
  class Field {
   public:
    template <class T>
    Field(std::string key, T C::*member, FieldOptions options)
        : Field(
              std::move(key), [member](C& c) -> T& { return c.*member; }, std::move(options)) {}
    template <class S, class T>
    Field(std::string key, S C::*part, T S::*member, FieldOptions options)
        : Field(
              std::move(key), [part, member](C& c) -> T& { return c.*part.*member; }, std::move(options)) {}
    template <class S, class P, class T>
    Field(std::string key, S C::*part, P S::*inner, T P::*member, FieldOptions options)
        : Field(
              std::move(key), [part, inner, member](C& c) -> T& { return c.*part.*inner.*member; },
              std::move(options)) {}

    /// A member of another type, whose values are written as words. `at(C&)` gives the member.
    template <class At, class Parse, class Name>
    static Field words(std::string key, At at, Parse parse, Name name, FieldOptions options) {
      Field field;
      field.key_ = std::move(key);
      field.options_ = std::move(options);
      field.kind_ = config_detail::kind_text<std::string>(field.options_);
      field.read_ = [key = field.key_, options = field.options_, at, parse, name](const ConfigReader& reader,
                                                                                  C& c) {
        const auto word =
            config_detail::read_value<std::string>(reader, key, std::string(name(at(c))), options);
        try {
          at(c) = parse(word);
        } catch (const InvalidConfig& error) {  // with its location
          const std::string_view told = error.what();
          const std::size_t problem = told.find(error.key + ": ");
          if (problem == std::string_view::npos) throw;
          reader.fail(key, told.substr(problem + error.key.size() + 2));
        }
      };
      field.default_ = [at, name] {
        C made{};
        return std::string(name(at(made)));
      };
      return field;
    }

    /// A key that is read elsewhere (a list of mappings, several forms): `kind` and `options` tell of
    /// it.
    static Field documented(std::string key, std::string kind, FieldOptions options) {
      Field field;
      field.key_ = std::move(key);
      field.options_ = std::move(options);
      field.kind_ = std::move(kind);
      return field;
    }

   private:
    friend class ConfigTable;
    Field() = default;

    template <class At>
    Field(std::string key, At at, FieldOptions options) : key_(std::move(key)), options_(std::move(options)) {
      using T = std::remove_reference_t<decltype(at(std::declval<C&>()))>;
      kind_ = config_detail::kind_text<T>(options_);
      read_ = [key = key_, options = options_, at](const ConfigReader& reader, C& c) {
        at(c) = config_detail::read_value<T>(reader, key, at(c), options);
      };
      check_ = [key = key_, options = options_, at](C& c) {
        config_detail::check_value<T>(key, at(c), options);
      };
      default_ = [at] {
        C made{};
        return config_detail::value_text<T>(at(made));
      };
    }

    std::string key_;
    FieldOptions options_;
    std::string kind_;
    std::function<void(const ConfigReader&, C&)> read_;
    std::function<void(C&)> check_;
    std::function<std::string()> default_;
  };

  struct Section {
    std::string heading;
    std::vector<Field> fields;
  };

  /// `prefix`: the mapping that the keys are in ("architecture"); empty for the top level.
  ConfigTable(std::initializer_list<Section> sections, std::string prefix = "")
      : sections_(sections), prefix_(std::move(prefix)) {}

  /// Makes the other names of all keys mean them; for what looks at a key before read() does.
  void read_aliases(const ConfigReader& reader) const {
    for_each([&](const Field& field) {
      for (const std::string& alias : field.options_.aliases) reader.alias(alias, field.key_);
    });
  }
  /// Sets the members whose keys are there. What they hold before is the default.
  void read(const ConfigReader& reader, C& config) const {
    read_aliases(reader);
    for_each([&](const Field& field) {
      if (field.read_) field.read_(reader, config);
    });
  }
  /// For a configuration that was made in C++. Throws InvalidConfig that names the key.
  void check(const C& config) const {
    C copy = config;
    for_each([&](const Field& field) {
      if (field.check_) field.check_(copy);
    });
  }

  std::vector<ConfigSection> reference() const {
    std::vector<ConfigSection> result;
    for (const Section& section : sections_) {
      ConfigSection& shown = result.emplace_back(ConfigSection{section.heading, {}});
      for (const Field& field : section.fields) {
        const FieldOptions& o = field.options_;
        shown.keys.push_back(
            {.key = prefix_.empty() ? field.key_ : prefix_ + "." + field.key_,
             .aliases = o.aliases,
             .kind = field.kind_,
             .default_value = config_detail::default_text(field.default_ ? field.default_() : "", o),
             .unit = o.unit,
             .doc = o.doc});
      }
    }
    return result;
  }

 private:
  template <class F>
  void for_each(F f) const {
    for (const Section& section : sections_)
      for (const Field& field : section.fields) f(field);
  }

  std::vector<Section> sections_;
  std::string prefix_;
};

}  // namespace ingot
