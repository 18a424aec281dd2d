#pragma once

#include "ingot/base/error.h"

namespace ingot::cli {

/// The exit code of work that a signal ended in order: that of a program which the signal killed (128 and its
/// number; SIGINT's where none came).
int interrupt_exit_code();

/// While one lives, the first SIGINT (Ctrl-C), SIGTERM (a scheduler, a shutdown) or SIGHUP (a closed
/// terminal) is only noted, so that work may end in order; the second one ends the process. A signal that was
/// ignored before, as SIGHUP under nohup, stays so. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
};

/// From now on the process ignores these signals: another one decides for it.
void ignore_interrupts();

/// Whether one of them came since the latest InterruptWatch was made.
bool interrupted();

/// Work that a signal ended before it had anything to keep. The exit code is interrupt_exit_code().
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted; nothing that was written is kept") {}
  std::string_view kind() const noexcept override { return "interrupted"; }
};
/// Throws Interrupted where interrupted() holds.
void stop_if_interrupted();

}  // namespace ingot::cli
