#include "ingot/base/stop_watcher.h"

#include <chrono>
#include <csignal>

#include <unistd.h>

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

// A command that the work runs has five seconds of its own; work that is inside a long step is put back after
// that, and who started this process waits longer (WorkerPool).
constexpr std::chrono::seconds kPutBackAfter{7};

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // Ignored, as under nohup, it stays so: what is blocked is not.
  struct sigaction hang_up {};
  if (::sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN)
    sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

void StopWatcher::block_signals() {
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

StopWatcher::StopWatcher(std::function<void()> put_back)
    : put_back_(std::move(put_back)), thread_([this] { watch(); }) {}

StopWatcher::~StopWatcher() {
  over_ = true;
  ::pthread_kill(thread_.native_handle(), SIGTERM);  // ends its waiting
  thread_.join();
}

void StopWatcher::watch() {
  const sigset_t signals = stop_signals();
  int number = 0;
  while (::sigwait(&signals, &number) != 0) {
  }
  if (over_) return;
  stop_.request_stop();
  for (const auto deadline = Clock::now() + kPutBackAfter; Clock::now() < deadline;) {
    if (over_) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  put_back_();
  end_process();
}

void StopWatcher::end_process() {
  std::signal(SIGTERM, SIG_DFL);
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::kill(::getpid(), SIGTERM);
  ::_exit(128 + SIGTERM);
}

}  // namespace ingot
