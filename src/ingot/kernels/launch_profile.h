#pragma once

#include <cstdint>
#include <vector>

namespace ingot::kernels {

/// Adds up, while alive, where the kernels that this thread launches spend their time (by a steady clock, on
/// the host: on a card it is the launches' time, not the kernels'). A kernel that launches others counts
/// without them. The last one made counts.
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
  /// One for each kernel and implementation, those that took longest first.
  std::vector<Entry> entries() const;

  /// This thread's, or null.
  static LaunchProfile* current();

 private:
  friend class LaunchTimer;
  LaunchProfile* previous_;
  double within_ = 0;  // seconds of the launches that the running one has made
  std::vector<Entry> entries_;
};

/// Counts its lifetime as one launch of the current profile, if there is one.
class LaunchTimer {
 public:
  LaunchTimer(const char* kernel, const char* implementation) : profile_(LaunchProfile::current()) {
    if (profile_ != nullptr) [[unlikely]]
      start(kernel, implementation);
  }
  ~LaunchTimer() {
    if (profile_ != nullptr) [[unlikely]]
      stop();
  }
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;

 private:
  void start(const char* kernel, const char* implementation);
  void stop();
  LaunchProfile* profile_;
  const char* kernel_ = nullptr;
  const char* implementation_ = nullptr;
  double start_ = 0;
  double before_ = 0;  // of the launch around this one, within it, before this one
};

}  // namespace ingot::kernels
