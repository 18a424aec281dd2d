#include "ingot/benchmark/launch_breakdown.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/kernels/launch_profile.h"

namespace ingot::benchmark {

LaunchBreakdown break_down(const std::function<double()>& run, double steps) {
  const kernels::LaunchProfile profile;
  const double whole = run() / steps;
  double rest = whole;
  LaunchBreakdown breakdown;
  for (const auto& e : profile.entries()) {
    const double seconds = e.seconds / steps;
    rest -= seconds;
    breakdown.rows.push_back({.kernel = e.kernel,
                              .implementation = e.implementation,
                              .launches = static_cast<double>(e.launches) / steps,
                              .seconds = seconds,
                              .share = seconds / whole});
  }
  breakdown.rows.push_back({.kernel = "between kernels", .seconds = rest, .share = rest / whole});
  return breakdown;
}

std::string describe(const LaunchBreakdown& breakdown, std::string_view title) {
  std::string text = fmt::format("\n{:<42} {:>9} {:>10} {:>7}\n", title, "launches", "us", "share");
  for (const auto& row : breakdown.rows) {
    const bool kernel = !row.implementation.empty();
    text +=
        fmt::format("{:<42} {:>9} {:>10.1f} {:>5.1f} %\n",
                    kernel ? fmt::format("{} ({})", row.kernel, row.implementation) : row.kernel,
                    kernel ? fmt::format("{:.0f}", row.launches) : "", row.seconds * 1e6, row.share * 100);
  }
  return text;
}

std::string to_json(const LaunchBreakdown& breakdown) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : breakdown.rows) {
    auto& json = rows.emplace_back(nlohmann::ordered_json{{"kernel", row.kernel}});
    if (!row.implementation.empty()) {
      json["implementation"] = row.implementation;
      json["launches"] = row.launches;
    }
    json["seconds"] = row.seconds;
    json["share"] = row.share;
  }
  return dump_json(rows);
}

}  // namespace ingot::benchmark
