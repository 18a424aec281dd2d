#pragma once

#include <string>
#include <vector>

namespace ingot::benchmark {

/// Another program that answers each line of its stdin with one line of its stdout: how two programs take
/// turns within one benchmark. Its stderr is ours.
class PeerProcess {
 public:
  /// `command[0]` is looked up in PATH; `environment` adds NAME=value settings to ours. Throws IoError.
  PeerProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  /// Closes its stdin and waits for its end.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// The next line, without its end. Throws IoError when the program ended instead.
  std::string read_line();
  /// Sends a line and waits for the answer.
  std::string ask(const std::string& line);

 private:
  std::string name_;
  int pid_ = -1, to_ = -1, from_ = -1;
  std::string pending_;
};

}  // namespace ingot::benchmark
