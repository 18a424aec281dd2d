#include "ingot/cli/text_inputs.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/printable.h"

namespace ingot::cli {

void read_standard_input(std::vector<std::string>& texts, const std::string& option) {
  const auto asks = [](const std::string& text) { return text == "-"; };
  const auto found = std::ranges::find_if(texts, asks);
  if (found == texts.end()) return;
  INGOT_CHECK(std::ranges::count_if(texts, asks) == 1,
              InvalidConfig(option, "standard input (-) can be read once"));
  found->assign(std::istreambuf_iterator<char>(std::cin), {});
  if (found->ends_with('\n')) found->pop_back();  // as echo writes it
}

void TextInputs::add_to(Command& command) {
  command.option("-t,--text", texts, "A text, - is standard input; may be given several times");
  command.option("-f,--file", file, "A file with one text per line; - is standard input");
}

std::vector<std::string> TextInputs::read() const {
  std::vector<std::string> all = texts;
  read_standard_input(all, "--text");
  if (file.empty()) {
    INGOT_CHECK(!all.empty(), InvalidConfig("--text", "give a text, or a file of them with --file"));
    return all;
  }
  std::istringstream lines(read_file(file));  // "-" is standard input
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  INGOT_CHECK(!all.empty(), InvalidConfig("--file", "holds no line"));
  return all;
}

std::vector<std::string_view> views_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kShown = 44;
  if (text.size() <= kShown) return printable(text);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;  // not amid a character
  return printable(text.substr(0, end)) + "...";
}

}  // namespace ingot::cli
