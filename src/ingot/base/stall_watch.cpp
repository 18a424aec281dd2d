#include "ingot/base/stall_watch.h"

#include <utility>

namespace ingot {

StallWatch::StallWatch(std::chrono::milliseconds patience, Tell tell)
    : patience_(patience), tell_(std::move(tell)), thread_([this] { watch(); }) {}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_one();
  thread_.join();
}

void StallWatch::begin(std::string_view name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  began_ = Clock::now();
}

void StallWatch::end() {
  const std::lock_guard lock(mutex_);
  name_.reset();
}

// Looks now and then, so that a call costs no more than a lock that is free.
void StallWatch::watch() {
  std::unique_lock lock(mutex_);
  std::optional<Clock::time_point> told;  // when the call began that was told of
  while (!over_changed_.wait_for(lock, patience_ / 4, [this] { return over_; })) {
    const auto waited = Clock::now() - began_;
    if (!name_ || waited < patience_ || told == began_) continue;
    told = began_;
    const std::string name(*name_);
    lock.unlock();
    tell_(name, std::chrono::duration_cast<std::chrono::seconds>(waited));
    lock.lock();
  }
}

}  // namespace ingot
