#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace ingot::dist {

/// What a rank tells the one that watches it, once a second.
struct Beat {
  std::int64_t operation = 0;       ///< that it came to last
  std::array<char, 32> what{};      ///< "all-gather"
  std::array<char, 64> activity{};  ///< "step 12"
  bool last = false;                ///< it goes, and is to be missed no more
};

/// Whether this process has got on since it was last asked: used a processor, read from a disk, or waits for
/// one. The thread that asks does not count.
class OwnProgress {
 public:
  struct Look {
    double now = 0, processor = 0;  ///< seconds; those that its other threads have computed
    std::int64_t reads = 0;
    bool waits_for_disk = false;  ///< a thread cannot be interrupted: it reads, writes or waits for fsync
  };
  bool any();
  /// Threads that wake now and then compute a little, too: it is the rate that counts.
  bool any(const Look& look);

 private:
  std::optional<Look> before_;
};

/// For how long nothing was heard. A long time between two looks is one in which who looks was held up, and
/// counts no more than kMostGap.
class Silence {
 public:
  static constexpr double kMostGap = 1;  ///< seconds
  void heard() { seconds_ = 0; }
  void look(double now);
  double seconds() const { return seconds_; }

 private:
  std::optional<double> seen_;
  double seconds_ = 0;
};

/// A thread that tells another rank that this one lives, and listens to a third. One that is stopped, or that
/// hangs while it prepares, is missed by that.
class Heartbeat {
 public:
  /// All are called by the thread.
  struct Line {
    std::function<Beat()> position;                        ///< of this rank
    std::function<void(const Beat&)> send;                 ///< to the rank that watches this one
    std::function<std::optional<Beat>()> receive;          ///< from the rank that this one watches
    std::function<void(const Beat&, double)> tell_silent;  ///< its last beat, seconds since
    std::function<void()> tell_heard;                      ///< one that was told to be silent
  };
  Heartbeat(Line line, double most_silence);
  /// After a last beat.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Whether this rank beats only as it gets on (OwnProgress), as one does that loads a model. Later it may
  /// wait for what is not a rank.
  void set_preparing(bool prepares) { prepares_ = prepares; }

 private:
  void loop();
  void beat();
  void listen();

  Line line_;
  double most_silence_;
  std::atomic<bool> prepares_{false};
  OwnProgress progress_;
  Silence silence_;
  std::optional<Beat> heard_ = Beat{};  // nothing: it is watched no more
  bool missed_ = false;                 // and that was told
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ingot::dist
