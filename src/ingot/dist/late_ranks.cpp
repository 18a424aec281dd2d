#include "ingot/dist/late_ranks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ingot::dist {
namespace {

std::string plural(std::span<const std::string> names) {
  return fmt::format("rank{} {}", names.size() > 1 ? "s" : "", fmt::join(names, ", "));
}

}  // namespace

std::string tell_failed_rank(int rank, const std::string& host, const Waiting& at) {
  const std::string behind =
      at.operation > 0 ? fmt::format(", behind its {} (number {})", at.what, at.operation) : "";
  return fmt::format("rank {} on {} failed in {}{}: {}", rank, host, at.activity, behind, at.failure);
}

std::string tell_missed_rank(int here, int by, const std::string& host, double seconds) {
  return fmt::format(
      "rank {} on {} heard nothing of this rank, {}, for {:.3g} s, and the run ended; look what held it up "
      "(stopped, a slow disk, swapping, the network), or raise INGOT_RANK_SILENCE",
      by, host, here, seconds);
}

namespace {

// Behind what it was heard of last.
std::string tell_silent_rank(int rank, const std::string& host, const Waiting& at) {
  const std::string behind =
      at.operation > 0 ? fmt::format("behind its {} (number {}) of {}", at.what, at.operation, at.activity)
                       : "before it told of any operation";
  return fmt::format("nothing was heard of rank {} on {} for {:.3g} s, {}", rank, host, at.silent, behind);
}

}  // namespace

std::string tell_late_ranks(int here, std::span<const std::optional<Waiting>> ranks,
                            const std::vector<std::string>& hosts, const std::string& setting) {
  const Waiting& own = *ranks[static_cast<std::size_t>(here)];
  std::vector<std::string> failed, silent, unheard, elsewhere, together;
  double seconds = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].has_value() && !ranks[rank]->failure.empty()) {
      failed.push_back(tell_failed_rank(static_cast<int>(rank), hosts[rank], *ranks[rank]));
      continue;
    }
    if (ranks[rank].has_value() && ranks[rank]->silent > 0) {
      unheard.push_back(tell_silent_rank(static_cast<int>(rank), hosts[rank], *ranks[rank]));
      continue;
    }
    if (!ranks[rank].has_value())
      silent.push_back(fmt::format("{} on {}", rank, hosts[rank]));
    else if (ranks[rank]->operation != own.operation || ranks[rank]->what != own.what)
      elsewhere.push_back(fmt::format("{} in its {} (number {}) of {}", rank, ranks[rank]->what,
                                      ranks[rank]->operation, ranks[rank]->activity));
    else
      together.push_back(fmt::format("{}", rank));
    if (ranks[rank].has_value()) seconds = std::max(seconds, ranks[rank]->seconds);
  }
  const std::string wait = fmt::format("{} waited {:.3g} s in the {} (number {}) of {}", plural(together),
                                       seconds, own.what, own.operation, own.activity);
  if (!failed.empty()) return fmt::format("{}: {}", wait, fmt::join(failed, "; "));
  if (!unheard.empty())
    return fmt::format(
        "{}: {}; look what it does there (stopped, hanging, swapping, off the network), or raise "
        "INGOT_RANK_SILENCE",
        wait, fmt::join(unheard, "; "));
  if (!silent.empty())
    return fmt::format(
        "{}: {} did not come; look what it does there (stopped, swapping, a slow disk), or raise {}", wait,
        plural(silent), setting);
  if (!elsewhere.empty())
    return fmt::format(
        "{}, and {} waits there: the ranks do not do the same; start each with the same "
        "program, configuration and data",
        wait, plural(elsewhere));
  return fmt::format(
      "{}, all of them: the network between their hosts does not deliver; check it, or raise {}", wait,
      setting);
}

}  // namespace ingot::dist
