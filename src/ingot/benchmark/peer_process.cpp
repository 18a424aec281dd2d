#include "ingot/benchmark/peer_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/error.h"

namespace ingot::benchmark {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Ours with the settings of `changes` instead of those of the same names.
std::vector<std::string> changed_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> result = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string setting = *entry;
    const std::string name = setting.substr(0, setting.find('=') + 1);
    bool replaced = false;
    for (const std::string& change : changes) replaced = replaced || change.starts_with(name);
    if (!replaced) result.push_back(setting);
  }
  return result;
}

}  // namespace

PeerProcess::PeerProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment)
    : name_(command.front()) {
  int input[2], output[2];
  INGOT_CHECK(::pipe2(input, O_CLOEXEC) == 0 && ::pipe2(output, O_CLOEXEC) == 0,
              IoError(name_, std::string("no pipe to it: ") + std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<std::string> words = command, settings = changed_environment(environment);
  const int failure = ::posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                                     pointers(settings).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  to_ = input[1];
  from_ = output[0];
  if (failure == 0) return;
  ::close(to_);
  ::close(from_);
  throw IoError(name_, std::string("cannot be started: ") + std::strerror(failure));
}

PeerProcess::~PeerProcess() {
  ::close(to_);
  ::close(from_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string PeerProcess::read_line() {
  while (true) {
    const std::size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    char buffer[4096];
    const ssize_t got = ::read(from_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    INGOT_CHECK(got > 0, IoError(name_, "ended without an answer; what it said is above"));
    pending_.append(buffer, static_cast<std::size_t>(got));
  }
}

std::string PeerProcess::ask(const std::string& line) {
  const std::string message = line + "\n";
  // A program that has ended is reported by read_line, not by a signal.
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  static_cast<void>(!::write(to_, message.data(), message.size()));
  ::sigaction(SIGPIPE, &before, nullptr);
  return read_line();
}

}  // namespace ingot::benchmark
