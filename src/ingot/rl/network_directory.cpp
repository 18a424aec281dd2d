#include "ingot/rl/network_directory.h"

#include <algorithm>
#include <filesystem>

#include "ingot/base/error.h"
#include "ingot/rl/mahjong_player.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> model_directories(const fs::path& root) {
  std::vector<fs::path> found;
  if (fs::is_regular_file(root / "config.json")) found.push_back(root);
  std::error_code code;
  for (fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, code), end;
       !code && it != end; it.increment(code)) {
    std::error_code none;
    if (it->is_directory(none) && fs::is_regular_file(it->path() / "config.json", none))
      found.push_back(it->path());
  }
  INGOT_CHECK(!code, IoError(root.string(), "cannot list it: " + code.message()));
  std::ranges::sort(found);
  return found;
}

}  // namespace

FoundNetworks networks_under(const std::string& directory, const std::string& settings) {
  INGOT_CHECK(fs::is_directory(directory), IoError(directory, "is not a directory of networks"));
  FoundNetworks found;
  for (const fs::path& path : model_directories(directory)) {
    const std::string below = path.lexically_relative(directory).generic_string();
    try {
      found.players.push_back({.name = below == "." ? path.filename().generic_string() : below,
                               .batch = open_network_player("model:" + path.string() + settings)});
    } catch (const Error& error) {
      found.left_out.push_back({.directory = path.string(), .error = error.what()});
    }
  }
  return found;
}

}  // namespace ingot
