#include "ingot/kernels/launch_profile.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ingot::kernels {
namespace {

thread_local LaunchProfile* active = nullptr;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

LaunchProfile::LaunchProfile() : previous_(active) { active = this; }
LaunchProfile::~LaunchProfile() { active = previous_; }
LaunchProfile* LaunchProfile::current() { return active; }

void LaunchProfile::add(const char* kernel, const char* implementation, double seconds) {
  auto entry = std::ranges::find_if(
      entries_, [&](const Entry& e) { return e.kernel == kernel && e.implementation == implementation; });
  if (entry == entries_.end())
    entry = entries_.insert(entry, {.kernel = kernel, .implementation = implementation});
  ++entry->launches;
  entry->seconds += seconds;
}

std::vector<LaunchProfile::Entry> LaunchProfile::entries() const {
  std::vector<Entry> sorted = entries_;
  std::ranges::sort(sorted, std::ranges::greater(), &Entry::seconds);
  return sorted;
}

void LaunchTimer::start(const char* kernel, const char* implementation) {
  kernel_ = kernel;
  implementation_ = implementation;
  before_ = std::exchange(profile_->within_, 0.0);
  start_ = now();
}

void LaunchTimer::stop() {
  const double seconds = now() - start_;
  profile_->add(kernel_, implementation_, seconds - profile_->within_);
  profile_->within_ = before_ + seconds;
}

}  // namespace ingot::kernels
