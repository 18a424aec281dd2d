#pragma once

#include <string>
#include <string_view>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
}

namespace ingot::cli {

/// A script for "bash", "zsh" or "fish" that completes commands, options, and the choices that an option has;
/// where any value will do, files.
std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace ingot::cli
