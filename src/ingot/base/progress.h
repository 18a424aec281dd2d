#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ingot {

/// Whether a file descriptor is a terminal that understands cursor movement (TERM is set and is not "dumb").
bool is_terminal(int fd);

/// Whether text for a file descriptor may have colours: a terminal, and NO_COLOR is not set.
bool wants_color(int fd);
/// The width of a terminal; elsewhere that of COLUMNS, or 80.
int terminal_columns(int fd);

/// Columns that text takes on a terminal: combining marks none, East Asian wide characters and emoji two,
/// escape sequences (ESC [ ... letter) none. Broken UTF-8 counts one per byte.
int display_width(std::string_view utf8);
/// The beginning of text that takes so many columns at most.
std::string_view fit_width(std::string_view utf8, int columns);

struct ProgressOptions {
  enum class Mode {
    automatic,  // a bar on a terminal, lines elsewhere
    bar,
    lines,  // now and then a whole line, for logs and pipes
    quiet
  };

  std::string label;
  std::int64_t total = 0;  // 0: not known
  bool bytes = false;      // counts are bytes, shown as "1.20 GiB"
  std::int64_t done = 0;   // where a resumed run starts: not counted as this run's speed
  Mode mode = Mode::automatic;
  int fd = 2;
  int width = 0;                       // columns; 0: ask the terminal each time
  double redraw_seconds = 0.1;         // a bar is drawn at most this often
  double line_seconds = 10;            // a line is written at most this often
  bool unicode = true;                 // eighths of a block; without, '#'
  bool color = true;                   // off under NO_COLOR in any case
  std::function<double()> clock = {};  // seconds, for tests; empty: the steady clock
};

/// Shows how far a long run is: a bar, the count, what is left to wait, and on the right what the caller
/// likes
/// ("loss 3.21 · 12.3k tok/s"). Thread-safe. One is shown at a time; others that start meanwhile stay quiet.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressOptions options);
  ~ProgressBar();  // as finish()
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Cheap when nothing is to be drawn: call it every step.
  void update(std::int64_t done, std::string_view right = {});
  /// Whether an update now would be drawn: saves building a costly `right`.
  bool due() const;
  /// Draws the last state and moves to a new line.
  void finish();

  struct State;  // of the implementation

 private:
  std::shared_ptr<State> state_;
};

/// Takes the bar off the screen while it lives, so that lines can be written to the terminal; then the bar is
/// drawn again below them. What writes to a terminal while a bar may be there holds one of these: the log
/// does.
class ProgressPause {
 public:
  ProgressPause();
  ~ProgressPause();
  ProgressPause(const ProgressPause&) = delete;
  ProgressPause& operator=(const ProgressPause&) = delete;
};

}  // namespace ingot
