#include "ingot/tune/worker.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

namespace ingot::tune {
namespace {

struct Process {
  char state = '?';
  std::int64_t started = 0;
};

// /proc/<pid>/stat: "pid (name) state ... ", the name in brackets may hold anything; field 22 is the start.
std::optional<Process> find_process(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');  // which does not throw where the process ends between opening and reading
  const std::size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(bracket + 1));
  Process process;
  fields >> process.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  if (!(fields >> process.started)) return std::nullopt;
  return process;
}

std::string this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code failed;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", failed);
  return boot + " " + (failed ? std::string() : space.string());
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

}  // namespace

Worker Worker::self() {
  Worker worker;
  worker.pid = ::getpid();
  worker.name = fmt::format("{}:{}", host_name(), worker.pid);
  worker.machine = this_machine();
  if (const auto process = find_process(worker.pid)) worker.started = process->started;
  return worker;
}

std::optional<bool> Worker::lives() const {
  static const std::string here = this_machine();
  if (machine != here || started == 0) return std::nullopt;
  const auto process = find_process(pid);
  if (!process || process->started != started || process->state == 'Z' || process->state == 'X') return false;
  return pid == ::getpid() ? std::nullopt : std::optional(true);
}

}  // namespace ingot::tune
