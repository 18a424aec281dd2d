#include "ingot/kernels/launch_profile.h"

#include <algorithm>
#include <chrono>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot::kernels {
namespace {

thread_local LaunchProfile* active = nullptr;

// A long run needs no more marks than this many launches have, as long as the device keeps up.
constexpr std::size_t kSpansBetweenSettling = 4096;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

LaunchProfile::LaunchProfile() : previous_(active), settle_at_(kSpansBetweenSettling) { active = this; }
LaunchProfile::~LaunchProfile() { active = previous_; }
LaunchProfile* LaunchProfile::current() { return active; }

std::size_t LaunchProfile::entry_of(const char* kernel, const char* implementation) {
  const auto entry = std::ranges::find_if(
      entries_, [&](const Entry& e) { return e.kernel == kernel && e.implementation == implementation; });
  if (entry != entries_.end()) return static_cast<std::size_t>(entry - entries_.begin());
  entries_.push_back({.kernel = kernel, .implementation = implementation});
  return entries_.size() - 1;
}

void LaunchProfile::add(const char* kernel, const char* implementation, double seconds) {
  Entry& entry = entries_[entry_of(kernel, implementation)];
  ++entry.launches;
  entry.seconds += seconds;
}

DeviceClock* LaunchProfile::clock_of(Device device) {
  if (device.is_cpu()) return nullptr;
  const auto [found, missing] = clocks_.try_emplace(device);
  if (missing) found->second = backend(device).make_clock();
  return found->second.get();
}

void LaunchProfile::add_later(const Span& span) {
  spans_.push_back(span);
  if (spans_.size() >= settle_at_) settle();
}

void LaunchProfile::settle() {
  std::erase_if(spans_, [&](const Span& span) {
    if (!span.clock->reached(span.to)) return false;
    entries_[span.entry].seconds += span.clock->seconds(span.from, span.to);
    span.clock->reuse(span.from);
    span.clock->reuse(span.to);
    return true;
  });
  settle_at_ = spans_.size() + kSpansBetweenSettling;
}

std::vector<LaunchProfile::Entry> LaunchProfile::entries() const {
  std::vector<Entry> sorted = entries_;
  for (const Span& span : spans_) sorted[span.entry].seconds += span.clock->seconds(span.from, span.to);
  std::ranges::sort(sorted, std::ranges::greater(), &Entry::seconds);
  return sorted;
}

void LaunchTimer::start(const char* kernel, const char* implementation, Stream stream) {
  stream_ = stream;
  clock_ = profile_->clock_of(stream.device);
  entry_ = profile_->entry_of(kernel, implementation);
  ++profile_->entries_[entry_].launches;
  outer_ = profile_->running_;
  if (outer_ != nullptr) outer_->end();
  profile_->running_ = this;
  begin();
}

void LaunchTimer::stop() noexcept {
  end();
  profile_->running_ = outer_;
  if (outer_ != nullptr) outer_->begin();
}

// A device that fails has nothing to time: who waits for its work is told why.
void LaunchTimer::begin() noexcept try {
  if (clock_ == nullptr) {
    start_ = now();
  } else {
    from_ = clock_->mark(stream_);
  }
} catch (const Error&) {
  from_ = nullptr;
}

void LaunchTimer::end() noexcept try {
  if (clock_ == nullptr) {
    profile_->entries_[entry_].seconds += now() - start_;
    return;
  }
  if (from_ == nullptr) return;
  const DeviceClock::Mark to = clock_->mark(stream_);
  if (to != nullptr) profile_->add_later({.entry = entry_, .clock = clock_, .from = from_, .to = to});
} catch (const Error&) {
  from_ = nullptr;
}

}  // namespace ingot::kernels
