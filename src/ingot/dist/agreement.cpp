#include "ingot/dist/agreement.h"

#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::dist {
namespace {

std::string packed(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += key + '\0' + value + '\0';
  return text;
}

std::string take_word(std::string_view& text) {
  const std::size_t end = text.find('\0');
  std::string word(text.substr(0, end));
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

Settings unpacked(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    std::string key = take_word(text);
    settings.emplace_back(std::move(key), take_word(text));
  }
  return settings;
}

std::string value_of(const Settings& settings, const std::string& key) {
  for (const auto& [name, value] : settings)
    if (name == key) return value;
  return "not given";
}

}  // namespace

void check_agreement(Communicator& communicator, const Settings& settings, const std::string& advice) {
  if (communicator.size() == 1) return;
  const std::vector<std::string> all = communicator.all_gather(packed(settings));
  const Settings first = unpacked(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Settings other = unpacked(all[rank]);
    for (const auto& [key, value] : first) {
      const std::string here = value_of(other, key);
      INGOT_CHECK(here == value, InvalidConfig(key, fmt::format("is {} on rank 0 and {} on rank {}; {}",
                                                                value, here, rank, advice)));
    }
  }
}

}  // namespace ingot::dist
