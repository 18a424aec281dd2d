#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::dist {

/// What one rank waits in.
struct Waiting {
  std::int64_t operation = 0;  ///< counted from 1, on every rank alike
  double seconds = 0;          ///< so far
  std::string what;            ///< "all-gather"
  std::string activity;        ///< "step 12"
};

/// Tells why rank `here` waited in vain. `ranks`: what each of them waits in, nothing for those that do not
/// answer; `hosts`: where they run.
std::string tell_late_ranks(int here, std::span<const std::optional<Waiting>> ranks,
                            const std::vector<std::string>& hosts);

}  // namespace ingot::dist
