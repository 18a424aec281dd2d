#pragma once

#include "ingot/base/scope.h"
#include "ingot/core/device_clock.h"
#include "ingot/core/stream.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/kernels/launch_work.h"

namespace ingot::kernels {

struct Launch {
  const char* kernel;
  const char* implementation;
  Stream stream;
  const LaunchWork& work;
};

/// Sees each launch of its thread, while it lives; the last one made counts.
class LaunchObserver {
 public:
  LaunchObserver();
  virtual ~LaunchObserver();
  LaunchObserver(const LaunchObserver&) = delete;
  LaunchObserver& operator=(const LaunchObserver&) = delete;
  /// Before the launch. False: it does not run, and its results hold what their memory did.
  virtual bool launching(const Launch& launch) = 0;

 private:
  ScopeWatch watch_;
  LaunchObserver* outer_;
};

/// One launch while somebody looks: told to the observer, counted by the profile, shown by the trace, on the
/// row of its thread and, of a device that works beside the host, on that of its stream.
class WatchedLaunch {
 public:
  WatchedLaunch(const char* kernel, const char* implementation, Stream stream, const LaunchWork& work);
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;
  bool runs() const { return runs_; }

 private:
  const char* kernel_;
  Stream stream_;
  bool runs_;
  std::uint32_t details_ = 0;
  DeviceClock::Mark from_ = nullptr;
  Scope scope_;
  LaunchTimer timer_;
};

}  // namespace ingot::kernels
