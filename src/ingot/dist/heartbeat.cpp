#include "ingot/dist/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
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

// As the kernel tells it: "1234 (name) D ...".
bool is_a_thread_uninterruptible() {
  std::error_code problem;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", problem)) {
    std::ifstream stat(thread.path() / "stat");
    std::string line;
    std::getline(stat, line);
    const std::size_t name_ends = line.rfind(')');
    if (name_ends != std::string::npos && line.substr(name_ends, 3) == ") D") return true;
  }
  return false;
}

// Signals are for the program's other threads.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

bool OwnProgress::any() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return any(Look{.now = seconds_of(CLOCK_MONOTONIC),
                  .processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID),
                  .reads = used.ru_majflt + used.ru_inblock,
                  .waits_for_disk = is_a_thread_uninterruptible()});
}

bool OwnProgress::any(const Look& look) {
  constexpr double kLeastRate = 1e-4;  // less than that is what idle threads take
  const std::optional<Look> before = std::exchange(before_, look);
  return !before.has_value() || look.waits_for_disk || look.reads != before->reads ||
         look.processor - before->processor >= kLeastRate * (look.now - before->now);
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
  silence_.look(seconds_of(CLOCK_MONOTONIC));  // before what lies there is heard
  while (const std::optional<Beat> beat = line_.receive()) {
    silence_.heard();
    heard_ = *beat;
    if (std::exchange(missed_, false)) line_.tell_heard();
    if (beat->last) return heard_.reset();
  }
  if (missed_ || silence_.seconds() < most_silence_) return;
  missed_ = true;
  line_.tell_silent(*heard_, silence_.seconds());
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
