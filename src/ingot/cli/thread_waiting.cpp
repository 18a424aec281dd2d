#include "ingot/cli/thread_waiting.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

namespace ingot::cli {

void bound_thread_waiting(char** argv) {
  constexpr const char *kSpins = "GOMP_SPINCOUNT", *kDone = "INGOT_WAITING_IS_BOUND";
  if (std::getenv(kDone) != nullptr) {
    ::unsetenv(kDone);
    ::unsetenv(kSpins);
    return;
  }
  // Environment: OMP_WAIT_POLICY, GOMP_SPINCOUNT | how threads wait between operations. Without them those
  // of `ingot` spin for about half a millisecond and then sleep; `active` spins on, for a machine of its
  // own; `passive` sleeps at once, which halves the speed of decoding on an idle machine
  if (std::getenv(kSpins) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return;
  // About half a millisecond. Threads that sleep at once halve the speed of decoding on an idle machine;
  // libgomp's own 300,000 divide it by four on a busy one.
  ::setenv(kSpins, "20000", 1);
  ::setenv(kDone, "1", 1);
  ::execv(self.c_str(), argv);
  ::unsetenv(kDone);  // it could not be started again: as it is, then
  ::unsetenv(kSpins);
}

}  // namespace ingot::cli
