#include "ingot/base/progress.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ingot/base/printable.h"
#include "ingot/base/terminal_screen.h"
#include "ingot/base/units.h"

namespace ingot {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

struct CodePoint {
  char32_t value;
  std::size_t bytes;
};

CodePoint next_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80       ? 1
                             : first >> 5 == 6  ? 2
                             : first >> 4 == 14 ? 3
                             : first >> 3 == 30 ? 4
                                                : 0;
  if (length == 0 || length > text.size()) return {0xFFFD, 1};
  char32_t value = length == 1 ? first : first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0xFFFD, 1};
    value = (value << 6) | (byte(i) & 0x3F);
  }
  return {value, length};
}

/// Unicode's East Asian Width (W, F) and general category Mn, in ranges coarse enough for labels and samples.
int code_point_width(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  static constexpr std::array kNone = {Range{0x300, 0x36F},   Range{0x483, 0x489},   Range{0x591, 0x5BD},
                                       Range{0x610, 0x61A},   Range{0x64B, 0x65F},   Range{0x200B, 0x200F},
                                       Range{0x20D0, 0x20F0}, Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};
  static constexpr std::array kTwo = {
      Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},   Range{0xAC00, 0xD7A3},
      Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},
      Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};
  const auto in = [c](const Range& r) { return c >= r.first && c <= r.last; };
  if (c < 0x20 || (c >= 0x7F && c < 0xA0) || std::any_of(kNone.begin(), kNone.end(), in)) return 0;
  return std::any_of(kTwo.begin(), kTwo.end(), in) ? 2 : 1;
}

/// Bytes of an escape sequence at the start of `text`, or 0.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\x1b' || text[1] != '[') return 0;
  std::size_t i = 2;
  while (i < text.size() && (text[i] < 0x40 || text[i] > 0x7E)) ++i;
  return std::min(i + 1, text.size());
}

}  // namespace

void write_to_terminal(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(fd, text.data(), text.size());
    if (done <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

TerminalScreen& terminal_screen() {
  static TerminalScreen* const kInstance =
      new TerminalScreen;  // the log may need it while statics are destroyed
  return *kInstance;
}

struct ProgressBar::State : ScreenItem {
  ProgressOptions options;
  std::int64_t done = 0;
  std::string right;
  double started = 0, last_drawn = 0;
  double rate = 0;  // items per second, smoothed
  double rate_time = 0;
  std::int64_t rate_done = 0;
  bool drawn = false, finished = false, shown = false;
  mutable std::mutex mutex;

  double now() const {
    if (options.clock) return options.clock();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double interval() const {
    return options.mode == ProgressOptions::Mode::lines ? options.line_seconds : options.redraw_seconds;
  }
  void measure(double time);
  std::string head() const;
  std::string count_text() const;
  std::string wait_text() const;
  std::string bar_line(int width) const;
  void draw(double time);
  void hide() override {
    const std::lock_guard lock(mutex);
    if (drawn) write_to_terminal(options.fd, kClearLine);
  }
  void show() override {
    const std::lock_guard lock(mutex);
    if (drawn) draw(last_drawn);
  }
};

bool is_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

namespace {

// https://no-color.org: an empty one asks for nothing
bool colors_are_allowed() {
  // Environment: NO_COLOR | no colors
  const char* setting = std::getenv("NO_COLOR");
  return setting == nullptr || *setting == '\0';
}

}  // namespace

bool wants_color(int fd) { return is_terminal(fd) && colors_are_allowed(); }

int terminal_columns(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  // Environment: COLUMNS | the width of help and tables in a pipe
  const char* columns = std::getenv("COLUMNS");
  const int asked = columns != nullptr ? std::atoi(columns) : 0;
  return asked > 0 ? asked : 80;
}

std::string_view fit_width(std::string_view text, int width) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (const std::size_t escape = escape_length(text.substr(at)); escape > 0) {
      at += escape;
      continue;
    }
    const CodePoint c = next_code_point(text.substr(at));
    width -= code_point_width(c.value);
    if (width < 0) break;
    at += c.bytes;
  }
  return text.substr(0, at);
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t escape = escape_length(text.substr(at)); escape > 0) {
      at += escape;
      continue;
    }
    const CodePoint c = next_code_point(text.substr(at));
    width += code_point_width(c.value);
    at += c.bytes;
  }
  return width;
}

/// Speed over about the last half minute: early steps (allocation, tuning) are forgotten, hiccups are
/// smoothed.
void ProgressBar::State::measure(double time) {
  constexpr double kMemory = 30;
  const double passed = time - rate_time;
  if (passed <= 0 || done <= rate_done) return;
  const double current = static_cast<double>(done - rate_done) / passed;
  const double weight =
      rate == 0 ? 1 : 1 - std::exp(-passed / std::min(kMemory, std::max(time - started, 1e-9)));
  rate += weight * (current - rate);
  rate_time = time;
  rate_done = done;
}

std::string ProgressBar::State::head() const {
  std::string text = options.label;
  if (!text.empty()) text += "  ";
  return text;
}

std::string ProgressBar::State::count_text() const {
  const auto text = [this](std::int64_t n) {
    return options.bytes ? human_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0)))
                         : fmt::format("{}", n);
  };
  return options.total > 0 ? text(done) + "/" + text(options.total) : text(done);
}

std::string ProgressBar::State::wait_text() const {
  if (finished) return "in " + human_duration(now() - started);
  if (options.total <= 0) return human_duration(now() - started);
  return rate > 0 ? "ETA " + human_duration(static_cast<double>(options.total - done) / rate) : "ETA ?";
}

/// "train  ██████▌      41 %  412/1000  ETA 1m 12s  loss 3.21"; parts go, from the least needed, as width
/// shrinks.
std::string ProgressBar::State::bar_line(int width) const {
  const bool color = options.color && colors_are_allowed();
  const auto painted = [&](std::string_view code, std::string_view text) {
    return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  };
  const double part =
      options.total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(options.total), 0.0, 1.0)
                        : 0;
  const std::string percent = options.total > 0 ? fmt::format("{:3.0f} %", std::floor(part * 100)) : "";
  const std::string count = count_text();
  const std::string wait = wait_text();

  std::string tail = percent.empty() ? count : percent + "  " + count;
  tail += "  " + painted("2", wait);
  if (!right.empty()) tail += "  " + right;
  // The last column stays free: some terminals wrap when it is written.
  const int room = width - 1 - display_width(head()) - display_width(tail) - 2;
  constexpr int kWidest = 32, kNarrowest = 6;
  std::string line = head();
  if (options.total > 0 && room >= kNarrowest) {
    const int cells = std::min(kWidest, room);
    const auto eighths = static_cast<int>(part * cells * (options.unicode ? 8 : 1));
    std::string filled, rest;
    if (options.unicode) {
      static constexpr std::array<const char*, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
      for (int i = 0; i < eighths / 8; ++i) filled += "█";
      filled += kParts[static_cast<std::size_t>(eighths % 8)];
      for (int i = (eighths + 7) / 8; i < cells; ++i) rest += "·";
    } else {
      filled.assign(static_cast<std::size_t>(eighths), '#');
      rest.assign(static_cast<std::size_t>(cells - eighths), '.');
    }
    line += painted(finished ? "32" : "36", filled) + painted("2", rest) + "  ";
  }
  line += tail;
  std::string result(fit_width(line, width - 1));
  if (color && result.size() < line.size()) result += "\x1b[0m";
  return result;
}

void ProgressBar::State::draw(double time) {
  if (options.mode == ProgressOptions::Mode::quiet || !shown) return;
  last_drawn = time;
  if (options.mode == ProgressOptions::Mode::lines) {
    write_to_terminal(options.fd, fmt::format("{}{}  {}{}{}\n", head(), count_text(), wait_text(),
                                              right.empty() ? "" : "  ", right));
    return;
  }
  const int width = options.width > 0 ? options.width : terminal_columns(options.fd);
  write_to_terminal(options.fd, std::string(kClearLine) + bar_line(width) + (finished ? "\n" : ""));
  drawn = !finished;
}

ProgressBar::ProgressBar(ProgressOptions options) : state_(std::make_shared<State>()) {
  State& s = *state_;
  s.options = std::move(options);
  s.options.label = printable(s.options.label);
  if (s.options.mode == ProgressOptions::Mode::automatic) {
    s.options.mode = is_terminal(s.options.fd) ? ProgressOptions::Mode::bar : ProgressOptions::Mode::lines;
  }
  s.done = s.rate_done = s.options.done;
  s.started = s.rate_time = s.last_drawn = s.now();
  const std::lock_guard lock(terminal_screen().mutex);
  if (terminal_screen().active.expired()) {
    terminal_screen().active = state_;
    s.shown = true;
    if (s.options.mode == ProgressOptions::Mode::bar) s.draw(s.started);
  }
}

ProgressBar::~ProgressBar() { finish(); }

bool ProgressBar::due() const {
  const State& s = *state_;
  const std::lock_guard lock(s.mutex);
  return s.shown && s.options.mode != ProgressOptions::Mode::quiet && s.now() - s.last_drawn >= s.interval();
}

void ProgressBar::update(std::int64_t done, std::string_view right) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    if (s.finished) return;
    s.done = done;
    if (!right.empty()) s.right = right;
    if (!s.shown || s.options.mode == ProgressOptions::Mode::quiet) return;
    if (s.now() - s.last_drawn < s.interval()) return;
  }
  const std::lock_guard screen_lock(terminal_screen().mutex);
  const std::lock_guard lock(s.mutex);
  const double time = s.now();
  s.measure(time);
  s.draw(time);
}

void ProgressBar::finish() {
  State& s = *state_;
  const std::lock_guard screen_lock(terminal_screen().mutex);
  const std::lock_guard lock(s.mutex);
  if (s.finished) return;
  s.finished = true;
  s.draw(s.now());
  if (s.shown) terminal_screen().active.reset();
}

ProgressPause::ProgressPause() {
  terminal_screen().mutex.lock();
  if (const auto item = terminal_screen().active.lock()) item->hide();
}

ProgressPause::~ProgressPause() {
  if (const auto item = terminal_screen().active.lock()) item->show();
  terminal_screen().mutex.unlock();
}

}  // namespace ingot
