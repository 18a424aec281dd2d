#include "ingot/dist/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <utility>

#include <pthread.h>
#include <sys/resource.h>

#include "ingot/base/stopwatch.h"

namespace ingot::dist {
namespace {

constexpr std::chrono::milliseconds kListen{250};  // between two looks for a beat
constexpr double kBeat = 1;                        // seconds between beats of one's own, at most
constexpr double kLeastBeats = 4;                  // in the time after which one is missed

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Signals are for the program's other threads.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

bool OwnProgress::any() {
  constexpr double kLeast = 1e-3;  // less than that is what idle threads take
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const std::int64_t reads = used.ru_majflt + used.ru_inblock;
  const double processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
  const bool any = processor - processor_seconds_ >= kLeast || reads != reads_;
  if (!any) return false;
  processor_seconds_ = processor;
  reads_ = reads;
  return true;
}

void Silence::look(double now) {
  if (seen_.has_value()) seconds_ += std::min(now - *seen_, kMostGap);
  seen_ = now;
}

Heartbeat::Heartbeat(Line line, double most_silence)
    : line_(std::move(line)), most_silence_(most_silence), thread_([this] { loop(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Heartbeat::beat() {
  if (!prepares_ || progress_.any()) line_.send(line_.position());
}

void Heartbeat::listen() {
  if (!heard_.has_value()) return;
  while (const std::optional<Beat> beat = line_.receive()) {
    silence_.heard();
    heard_ = *beat;
    if (beat->last) return heard_.reset();
  }
  silence_.look(seconds_of(CLOCK_MONOTONIC));
  if (silence_.seconds() < most_silence_) return;
  line_.tell_silent(*heard_, silence_.seconds());
  heard_.reset();
}

void Heartbeat::loop() {
  block_signals();
  std::unique_lock lock(mutex_);
  const double between = std::min(kBeat, most_silence_ / kLeastBeats);
  std::optional<Stopwatch> since;  // the last beat
  try {
    for (; !ends_; changed_.wait_for(lock, kListen, [&] { return ends_; })) {
      lock.unlock();
      if (!since.has_value() || since->seconds() >= between) {
        beat();
        since.emplace();
      }
      listen();
      lock.lock();
    }
    Beat last = line_.position();
    last.last = true;
    line_.send(last);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the rank's own operations fail, too
  }
}

}  // namespace ingot::dist
