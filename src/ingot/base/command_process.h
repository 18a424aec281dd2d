#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// A command that /bin/sh runs; what it writes comes through a pipe. The shell and all that it starts are one
/// process group, which is killed when the shell ends, with this object, and when this process is gone,
/// however that happened.
class CommandProcess {
 public:
  /// `environment`: NAME=value, added to this process's own. `log`: the file that its stderr replaces. Throws
  /// IoError where that cannot be written, Error where no process can be started.
  CommandProcess(const std::string& command, std::vector<std::string> environment, const std::string& log);
  ~CommandProcess();
  CommandProcess(const CommandProcess&) = delete;
  CommandProcess& operator=(const CommandProcess&) = delete;

  /// What it has written since; waits for more for so long at most. After status() has said that it ended,
  /// one call reads all that the shell wrote.
  std::string read(int milliseconds);
  /// The wait status of the shell, once it has ended.
  std::optional<int> status();
  /// To the whole group.
  void signal(int number) const;

 private:
  CommandProcess() = default;
  void kill_group();

  int output_ = -1;    // -1: at its end
  int lifeline_ = -1;  // a pipe that only this process holds: it ends when the process does
  int guard_ = 0;      // the process that leads the group
  int shell_ = 0;      // 0: none, or ended
  std::optional<int> status_;
};

}  // namespace ingot
