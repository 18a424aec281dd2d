#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
class Option;
}  // namespace CLI

namespace ingot::cli {

/// "ingot mahjong score"
std::string full_name(const CLI::App& app);
/// The words that an option takes; empty where any value will do.
std::vector<std::string> choices_of(const CLI::Option& option);
/// The words that completion offers for its value: its choices, or what Command::suggests named.
std::vector<std::string> completions_of(const CLI::Option& option);
/// Whether it stands alone, without a value.
bool is_flag(const CLI::Option& option);
/// "-n, --max-tokens N", or "MODEL" of a positional.
std::string signature(const CLI::Option& option);
/// What it is for, with its choices and its default.
std::string explanation(const CLI::Option& option);

/// Words of a text in lines of at most `columns`, each behind `indent` spaces but the first.
std::string wrap(std::string_view text, int columns, int indent);
/// The same to the width of the terminal `fd`; as it is elsewhere, for scripts read lines.
std::string wrap_on_terminal(std::string_view text, int indent, int fd);

/// What --help shows: usage, arguments, options and examples, wrapped to so many columns (40 at least).
std::string help_page(const CLI::App& app, int columns);
/// A page for man(1), in roff, of the command and all below it.
std::string man_page(const CLI::App& app);

}  // namespace ingot::cli
