#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/infer/engine.h"

namespace ingot::serve {

/// What is known of a choice that is asked for; nothing of what it says. Times in seconds since the timeline
/// began; below 0: not yet.
struct TimelineEntry {
  std::uint64_t id = 0;
  std::string model{}, adapter{};
  std::string client{};  ///< Client::name
  std::string peer{};    ///< address
  double arrived = 0, admitted = -1, first_token = -1, ended = -1;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
  std::string_view end{};  ///< infer::name() of the reason

  /// "queued", "prefill", "decode" or "ended".
  std::string_view state() const;
};

/// When the last choices came, were admitted, had their first token and ended. Holds so many, those that have
/// ended go first. Any thread may use it.
class Timeline {
 public:
  static constexpr std::size_t kMost = 256;

  /// The number by which the choice is known; 0, which stands for none, where there is no room for it.
  std::uint64_t add(TimelineEntry entry);
  void admit(std::uint64_t id);
  void count(std::uint64_t id, std::size_t tokens);
  void end(std::uint64_t id, infer::StopReason reason, const infer::Generation& made);

  /// The newest last.
  std::vector<TimelineEntry> entries() const;
  /// Of the timeline, in seconds.
  double now() const;

 private:
  TimelineEntry* find(std::uint64_t id);

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::deque<TimelineEntry> entries_;  // by their numbers
  std::uint64_t last_ = 0;
};

}  // namespace ingot::serve
