#include "ingot/cli/interrupt.h"

#include <csignal>

namespace ingot::cli {
namespace {

volatile std::sig_atomic_t came = 0;

void note_interrupt(int) {
  came = 1;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  came = 0;
  std::signal(SIGINT, note_interrupt);
}

InterruptWatch::~InterruptWatch() { std::signal(SIGINT, SIG_DFL); }

bool interrupted() { return came != 0; }

}  // namespace ingot::cli
