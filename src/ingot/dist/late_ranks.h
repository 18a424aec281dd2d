#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::dist {

/// What one rank waits in, or failed behind.
struct Waiting {
  std::int64_t operation = 0;  ///< counted from 1, on every rank alike
  double seconds = 0;          ///< so far
  std::string what = {};       ///< "all-gather"
  std::string activity = {};   ///< "step 12"
  std::string failure = {};    ///< why the rank comes no more; empty: it waits
  double silent = 0;           ///< seconds for which nothing was heard of the rank; 0: it answers
};

/// "rank 1 on north failed in pass 12, behind its all-reduce (number 34): why".
std::string tell_failed_rank(int rank, const std::string& host, const Waiting& at);

/// Why rank `here` ends, which has come back: rank `by` on `host` missed it for so many seconds.
std::string tell_missed_rank(int here, int by, const std::string& host, double seconds);

/// Tells why rank `here` waited in vain. `ranks`: what each of them waits in, nothing for those that do not
/// answer; `hosts`: where they run; `setting`: what gives them more time.
std::string tell_late_ranks(int here, std::span<const std::optional<Waiting>> ranks,
                            const std::vector<std::string>& hosts, const std::string& setting);

}  // namespace ingot::dist
