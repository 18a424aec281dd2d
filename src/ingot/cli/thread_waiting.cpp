#include "ingot/cli/thread_waiting.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include <unistd.h>

namespace ingot::cli {

void bound_thread_waiting(char** argv) {
  constexpr const char *kSpins = "GOMP_SPINCOUNT", *kDone = "INGOT_WAITING_IS_BOUND";
  if (std::getenv(kDone) != nullptr) {
    ::unsetenv(kDone);
    ::unsetenv(kSpins);
    return;
  }
  if (std::getenv(kSpins) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return;
  // One thread or three are woken in less time than they would take from others by spinning: measured on two
  // processors. Of many, the last would wait for all the calls that wake the others. 1000 is what libgomp
  // takes where it has more threads than processors.
  constexpr unsigned kFew = 4;
  ::setenv(kSpins, std::thread::hardware_concurrency() <= kFew ? "0" : "1000", 1);
  ::setenv(kDone, "1", 1);
  ::execv(self.c_str(), argv);
  ::unsetenv(kDone);  // it could not be started again: as it is, then
  ::unsetenv(kSpins);
}

}  // namespace ingot::cli
