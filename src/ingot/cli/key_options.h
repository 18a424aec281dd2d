#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ingot/base/config_table.h"
#include "ingot/cli/command.h"

namespace ingot::cli {

/// A key's text as --help shows it.
std::string help_of(const std::vector<ConfigSection>& reference, const std::string& key);

/// Options that stand for keys of a configuration: help and defaults are the keys', and what is
/// given goes over the file.
class KeyOptions {
 public:
  KeyOptions(Command command, std::vector<ConfigSection> reference)
      : command_(command), reference_(std::move(reference)) {}

  /// "--kv-cache" sets kv_cache; "model", a positional, sets model. The first of several names counts.
  Command& option(const std::string& name);
  /// An option that is repeatable sets a list.
  Command& list(const std::string& name, const std::string& key);
  /// A flag makes an assignment: "prefix_cache=false".
  void flag(const std::string& name, const std::string& assignment, const std::string& help);

  /// Throws InvalidConfig naming the option.
  void apply(Config& config) const;

 private:
  Command command_;
  std::vector<ConfigSection> reference_;
  std::vector<std::function<void(Config&)>> settings_;
};

}  // namespace ingot::cli
