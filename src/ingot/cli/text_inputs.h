#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ingot/cli/command.h"

namespace ingot::cli {

/// Texts of a command that takes many: given one by one, or a line each in a file.
struct TextInputs {
  std::vector<std::string> texts;
  std::string file;

  /// --text and --file.
  void add_to(Command& command);
  /// All of them. InvalidConfig where there is none; IoError where the file cannot be read.
  std::vector<std::string> read() const;
};

/// Reads standard input instead of a text "-", without the line end behind it. InvalidConfig for
/// `option` where there are two.
void read_standard_input(std::vector<std::string>& texts, const std::string& option);

std::vector<std::string_view> views_of(const std::vector<std::string>& texts);

/// At most 44 bytes of a text, and not half a character.
std::string shortened(const std::string& text);

}  // namespace ingot::cli
