#include "ingot/cli/arguments.h"

#include <charconv>

#include "ingot/base/error.h"

namespace ingot::cli {
namespace {

constexpr const char* kDeviceHelp =
    "auto: an NVIDIA GPU where there is one, else the CPU; or cpu, cuda, cuda:1";

}  // namespace

std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& option) {
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (at != end) {
    if (*at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto parsed = std::from_chars(at, end, id);
    INGOT_CHECK(
        parsed.ec == std::errc{} && (parsed.ptr == end || *parsed.ptr == ',' || *parsed.ptr == ' '),
        InvalidConfig(option, "'" + std::string(at, end) + "' does not begin with a token id; write 1,2,3"));
    ids.push_back(id);
    at = parsed.ptr;
  }
  INGOT_CHECK(!ids.empty(), InvalidConfig(option, "holds no token id; write 1,2,3"));
  return ids;
}

void add_device_option(Command& command, std::string& device) {
  command.option("--device", device, kDeviceHelp);
}

void add_device_option(Command& command, std::optional<std::string>& device) {
  command.option("--device", device, kDeviceHelp);
}

}  // namespace ingot::cli
