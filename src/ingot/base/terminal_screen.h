#pragma once

#include <memory>
#include <mutex>
#include <string_view>

namespace ingot {

/// What stands at the bottom of a terminal and is drawn again and again: a bar, a dashboard.
class ScreenItem {
 public:
  ScreenItem() = default;
  virtual ~ScreenItem() = default;
  ScreenItem(const ScreenItem&) = delete;
  ScreenItem& operator=(const ScreenItem&) = delete;

  /// Takes it off the screen, so that lines can be written where it was; and puts it there again, below them.
  /// Both with the screen's mutex held.
  virtual void hide() = 0;
  virtual void show() = 0;
};

/// The one item on the screen. The mutex is held while its lines are written or taken away.
struct TerminalScreen {
  std::recursive_mutex mutex;
  std::weak_ptr<ScreenItem> active;
};

TerminalScreen& terminal_screen();

/// Gives up where the terminal went away, which must not stop a run.
void write_to_terminal(int fd, std::string_view text);

}  // namespace ingot
