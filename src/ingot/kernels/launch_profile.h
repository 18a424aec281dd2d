#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ingot/base/scope.h"
#include "ingot/core/device_clock.h"
#include "ingot/core/stream.h"

namespace ingot::kernels {

class LaunchTimer;

/// Adds up, while alive, where the kernels that this thread launches spend their time: by the device's clock
/// where it works beside the host (ComputeBackend::make_clock), else by the host's. A kernel that launches
/// others counts without them. The last profile made counts.
///
/// A device's time of a launch lies between two marks around it in its stream. Where the stream is empty, the
/// device comes to the first at once and then waits for the host: that wait is in the kernel's time, so a
/// short kernel that the host is late with seems as long as its launch. Kernels of two streams that run side
/// by side count in full. What is launched while its stream is captured counts as a launch, of no time.
class LaunchProfile {
 public:
  struct Entry {
    const char* kernel;
    const char* implementation;
    std::int64_t launches = 0;
    double seconds = 0;
  };

  LaunchProfile();
  ~LaunchProfile();
  LaunchProfile(const LaunchProfile&) = delete;
  LaunchProfile& operator=(const LaunchProfile&) = delete;

  void add(const char* kernel, const char* implementation, double seconds);
  /// One for each kernel and implementation, those that took longest first. Waits for what was launched and
  /// reports its errors.
  std::vector<Entry> entries() const;

  /// This thread's, or null.
  static LaunchProfile* current();

 private:
  friend class LaunchTimer;
  // Part of a launch, whose time is known when the device has come to its end.
  struct Span {
    std::size_t entry;
    DeviceClock* clock;
    DeviceClock::Mark from, to;
  };

  std::size_t entry_of(const char* kernel, const char* implementation);
  // Null: the host's.
  DeviceClock* clock_of(Device device);
  void add_later(const Span& span);
  void settle();

  ScopeWatch watch_;
  LaunchProfile* previous_;
  LaunchTimer* running_ = nullptr;  // the innermost
  std::vector<Entry> entries_;
  std::map<Device, std::unique_ptr<DeviceClock>> clocks_;  // null for a device without one
  std::vector<Span> spans_;
  std::size_t settle_at_;
};

/// Counts its lifetime as one launch in `stream` of the current profile, if there is one.
class LaunchTimer {
 public:
  LaunchTimer(const char* kernel, const char* implementation, Stream stream = {})
      : profile_(LaunchProfile::current()) {
    if (profile_ != nullptr) [[unlikely]]
      start(kernel, implementation, stream);
  }
  ~LaunchTimer() {
    if (profile_ != nullptr) [[unlikely]]
      stop();
  }
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;

 private:
  void start(const char* kernel, const char* implementation, Stream stream);
  void stop() noexcept;
  // A span of this launch begins or ends: it has one before, between and after those that it makes.
  void begin() noexcept;
  void end() noexcept;

  LaunchProfile* profile_;
  LaunchTimer* outer_ = nullptr;
  std::size_t entry_ = 0;
  Stream stream_;
  DeviceClock* clock_ = nullptr;
  DeviceClock::Mark from_ = nullptr;  // by the clock
  double start_ = 0;                  // by the host's
};

}  // namespace ingot::kernels
