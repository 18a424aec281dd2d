#include "ingot/cli/interrupt.h"

#include <array>
#include <csignal>

namespace ingot::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t came = 0;

void handle_all(void (*handler)(int)) {
  for (const int signal : kSignals) {
    if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

void note_signal(int signal) {
  came = signal;
  handle_all(SIG_DFL);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  came = 0;
  handle_all(note_signal);
}

InterruptWatch::~InterruptWatch() { handle_all(SIG_DFL); }

void ignore_interrupts() { handle_all(SIG_IGN); }

bool interrupted() { return came != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

int interrupt_exit_code() { return 128 + (came != 0 ? static_cast<int>(came) : SIGINT); }

}  // namespace ingot::cli
