#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ingot {

/// Lines at the bottom of a terminal that are drawn again in place. Nothing of the terminal is changed for
/// it, so that there is nothing to give back, however the program ends. What others write while a
/// ProgressPause lives (base/progress.h) scrolls by above. Not drawn while a ProgressBar or others are.
class LiveLines {
 public:
  explicit LiveLines(int fd);
  ~LiveLines();  // the last lines stay
  LiveLines(const LiveLines&) = delete;
  LiveLines& operator=(const LiveLines&) = delete;

  /// Fewer lines than the terminal has rows, each narrower than it is wide.
  void draw(const std::vector<std::string>& lines);

  struct State;  // of the implementation

 private:
  std::shared_ptr<State> state_;
};

/// The rows of a terminal; 24 elsewhere.
int terminal_rows(int fd);

}  // namespace ingot
