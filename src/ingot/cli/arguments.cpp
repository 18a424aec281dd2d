#include "ingot/cli/arguments.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/quant/packed_matrix.h"

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

std::vector<std::string> load_formats() {
  std::vector<std::string> names = quant::quantized_formats();
  names.insert(names.begin(), {"f32", "bf16", "f16"});
  return names;
}

void add_load_format_option(Command& command, std::string& format) {
  command
      .option("--format", format,
              "Weights as stored, or f32, bf16, f16, q8_0, int8, q4_k, ...: quantized when loaded")
      .suggests(load_formats());
}

std::string ending_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

void check_ending(const std::string& option, const std::string& path, const std::vector<std::string>& known) {
  const std::string ending = ending_of(path);
  if (ending.empty() || std::ranges::find(known, ending) != known.end()) return;
  std::string names = known.front();
  for (std::size_t i = 1; i < known.size(); ++i) names += (i + 1 < known.size() ? ", " : " or ") + known[i];
  throw InvalidConfig(option, fmt::format("'{}' ends in {}, which is not written here; end the name in {}",
                                          path, ending, names));
}

}  // namespace ingot::cli
