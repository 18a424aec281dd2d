#include "ingot/serve/timeline.h"

#include <algorithm>
#include <utility>

namespace ingot::serve {

std::string_view TimelineEntry::state() const {
  if (ended >= 0) return "ended";
  if (first_token >= 0) return "decode";
  return admitted >= 0 ? "prefill" : "queued";
}

double Timeline::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::uint64_t Timeline::add(TimelineEntry entry) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() == kMost) {
    const auto ended = std::ranges::find_if(entries_, [](const auto& each) { return each.ended >= 0; });
    if (ended == entries_.end()) return 0;
    entries_.erase(ended);
  }
  entry.id = ++last_;
  entry.arrived = now();
  entries_.push_back(std::move(entry));
  return last_;
}

TimelineEntry* Timeline::find(std::uint64_t id) {
  const auto found = std::ranges::lower_bound(entries_, id, {}, &TimelineEntry::id);
  return found != entries_.end() && found->id == id ? &*found : nullptr;
}

void Timeline::admit(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (TimelineEntry* entry = find(id)) entry->admitted = now();
}

void Timeline::count(std::uint64_t id, std::size_t tokens) {
  const std::lock_guard lock(mutex_);
  TimelineEntry* entry = find(id);
  if (entry == nullptr) return;
  if (entry->first_token < 0) entry->first_token = now();
  entry->tokens += static_cast<std::int64_t>(tokens);
}

void Timeline::end(std::uint64_t id, infer::StopReason reason, const infer::Generation& made) {
  const std::lock_guard lock(mutex_);
  TimelineEntry* entry = find(id);
  if (entry == nullptr) return;
  entry->ended = now();
  entry->tokens = std::ssize(made.tokens);
  entry->cached_tokens = made.cached_tokens;
  entry->end = infer::name(reason);
}

std::vector<TimelineEntry> Timeline::entries() const {
  const std::lock_guard lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

}  // namespace ingot::serve
