#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
}

namespace ingot::cli {

/// One command of the command line: its options, its help and what it runs. A light face on CLI11, whose
/// header costs seconds in every file that includes it.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  /// A command below this one.
  Command subcommand(const std::string& name, const std::string& summary);

  /// `names` as in "-n,--max-tokens" for options, "model" for a positional; values keep their initial value
  /// as the default, which --help shows.
  Command& option(const std::string& names, std::string& value, const std::string& help);
  /// Tells an option that was not given from any value, an empty word (an unset variable of the shell) too.
  Command& option(const std::string& names, std::optional<std::string>& value, const std::string& help);
  Command& option(const std::string& names, std::optional<std::int64_t>& value, const std::string& help);
  Command& option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help);
  Command& option(const std::string& names, std::optional<double>& value, const std::string& help);
  Command& option(const std::string& names, std::int64_t& value, const std::string& help);
  Command& option(const std::string& names, std::uint64_t& value, const std::string& help);
  Command& option(const std::string& names, double& value, const std::string& help);
  Command& option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  /// The option just added has to be given.
  Command& required();
  /// The option just added takes one of `choices`.
  Command& one_of(const std::vector<std::string>& choices);
  /// Words that completion offers for the option just added, which takes others, too.
  Command& suggests(const std::vector<std::string>& words);
  /// What stands for the value of the option just added in --help, where the option's own name does not say
  /// it: "KEY=VALUE".
  Command& placeholder(const std::string& word);
  /// The option just added may stand without a value, for `word` then.
  Command& alone(const std::string& word);
  /// What --help shows as the default of the option just added; empty: none.
  Command& shows_default(const std::string& word);
  Command& flag(const std::string& names, bool& value, const std::string& help);

  /// Shown below the options: a command worth typing and what it does.
  Command& example(const std::string& command, const std::string& what);
  /// What the command does; its result is the exit code.
  Command& run(std::function<int()> action);

 private:
  CLI::App* app_;
  void* last_option_ = nullptr;
};

/// What a binary is, for its own help.
struct Program {
  std::string name, description;
  std::function<std::string()> version;  ///< what --version shows
  std::function<void(Command&)> add_commands;
};

/// Parses and runs a command line. Exit codes: 0 success, 1 the work failed, 2 the command or configuration
/// is wrong. Errors go to stderr, as JSON when `json` was set by a flag.
int run_command_line(int argc, char** argv, const Program& program);

/// Prints what went wrong to stderr, as JSON where a script asked for it, and tells the exit code. Errors of
/// libraries, which speak of their own insides, are told in words; control characters, which may come from a
/// file or a server, are escaped.
int report_error(const std::exception& error, bool json);

/// The program's page for man(1) ("man"), or a script that completes its commands in "bash", "zsh" or "fish".
std::string documentation(const Program& program, std::string_view kind);

}  // namespace ingot::cli
