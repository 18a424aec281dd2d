#include "ingot/base/live_lines.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/ioctl.h>

#include "ingot/base/progress.h"
#include "ingot/base/terminal_screen.h"

namespace ingot {

struct LiveLines::State : ScreenItem {
  int fd = 2;
  bool shown = false, hidden = true;
  std::vector<std::string> lines;

  // Rows that the drawn lines take now: a terminal that became narrower wraps them.
  int rows() const {
    const int columns = std::max(1, terminal_columns(fd));
    int count = 0;
    for (const std::string& line : lines) count += std::max(1, (display_width(line) + columns - 1) / columns);
    return std::min(count, terminal_rows(fd) - 1);
  }
  std::string to_the_top() const {
    const int up = hidden ? 0 : rows();
    return up > 0 ? fmt::format("\r\x1b[{}A", up) : std::string("\r");
  }

  void hide() override {
    if (!hidden) write_to_terminal(fd, to_the_top() + "\x1b[J");
    hidden = true;
  }
  void show() override { draw(lines); }
  void draw(const std::vector<std::string>& now) {
    std::string text = to_the_top();
    for (const std::string& line : now) text += line + "\x1b[K\n";
    write_to_terminal(fd, text + "\x1b[J");
    lines = now;
    hidden = false;
  }
};

LiveLines::LiveLines(int fd) : state_(std::make_shared<State>()) {
  state_->fd = fd;
  const std::lock_guard lock(terminal_screen().mutex);
  if (!terminal_screen().active.expired()) return;
  terminal_screen().active = state_;
  state_->shown = true;
}

LiveLines::~LiveLines() {
  const std::lock_guard lock(terminal_screen().mutex);
  if (state_->shown) terminal_screen().active.reset();
}

void LiveLines::draw(const std::vector<std::string>& lines) {
  const std::lock_guard lock(terminal_screen().mutex);
  if (state_->shown) state_->draw(lines);
}

int terminal_rows(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

}  // namespace ingot
