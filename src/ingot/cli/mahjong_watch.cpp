#include "ingot/cli/mahjong_watch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "ingot/base/progress.h"
#include "ingot/mahjong/terminal.h"

namespace ingot::cli {
namespace {

constexpr std::size_t kMostLines = 200;
constexpr double kFastest = 0.02, kSlowest = 20;
constexpr double kWaitForKey = 1e9;

std::size_t rows_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

// The terminal's other page, without wrapping and cursor, and keys as they are pressed, Ctrl-C too. A signal
// that ends the program gives the terminal back first; only SIGKILL cannot (`reset` fixes that).
class TableView::Screen {
 public:
  Screen() : keys_(isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &before()) == 0) {
    has_keys_to_restore() = keys_;
    catch_signals();
    if (keys_) {
      termios raw = before();
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
      raw.c_cc[VMIN] = 0;
      raw.c_cc[VTIME] = 0;
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    write("\x1b[?1049h\x1b[?7l\x1b[?25l");
  }
  ~Screen() {
    std::fflush(stdout);
    restore();
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &handlers_[i], nullptr);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  static std::size_t rows() {
    winsize size{};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
  }
  bool has_keys() const { return keys_; }
  /// The next key within that time; 0: none came.
  char key(double seconds) const {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int milliseconds = static_cast<int>(1000 * std::min(seconds, 3600.0));
    if (!keys_) return static_cast<void>(poll(nullptr, 0, milliseconds)), '\0';
    if (poll(&input, 1, milliseconds) <= 0) return '\0';
    char key = '\0';
    if (read(STDIN_FILENO, &key, 1) == 1) return key;
    return 'q';  // the terminal is gone
  }

 private:
  static constexpr std::array kSignals = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGPIPE,
                                          SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT};
  // What the handler needs; there is one terminal.
  static termios& before() {
    static termios settings{};
    return settings;
  }
  static volatile std::sig_atomic_t& has_keys_to_restore() {
    static volatile std::sig_atomic_t keys = 0;
    return keys;
  }

  // Calls nothing but what a signal handler may.
  static void restore() {
    constexpr std::string_view kBack = "\x1b[?25h\x1b[?7h\x1b[?1049l";
    [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, kBack.data(), kBack.size());
    if (has_keys_to_restore() != 0) tcsetattr(STDIN_FILENO, TCSANOW, &before());
  }
  static void on_signal(int signal) {  // SA_RESETHAND has put the default back
    restore();
    raise(signal);
  }
  void catch_signals() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGTTOU);  // else setting the terminal from the background would stop us
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &handlers_[i]);
      if (handlers_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
  }

  bool keys_;
  std::array<struct sigaction, kSignals.size()> handlers_{};
};

TableView::TableView(const Options& options) : options_(options) {
  options_.delay = std::clamp(options.delay, 0.0, kSlowest);
  if (is_terminal(STDOUT_FILENO)) screen_ = std::make_unique<Screen>();
}
TableView::~TableView() = default;

void TableView::say(const std::string& line) {
  if (line.empty()) return;
  lines_.push_back(line);
  if (lines_.size() > kMostLines) lines_.pop_front();
  ++said_;
}

void TableView::draw(const mahjong::Table& table) {
  const std::string body = mahjong::draw_table(table, true);
  std::string frame = "\x1b[H";
  for (const char c : body) frame += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
  const std::size_t used = rows_of(body) + 3, rows = Screen::rows();
  const std::size_t room = std::min(lines_.size(), rows > used ? rows - used : 0);
  frame += "\x1b[K\n";
  for (std::size_t i = lines_.size() - room; i < lines_.size(); ++i) {
    const bool fresh = lines_.size() - i <= said_;
    frame += fmt::format("{}{}\x1b[0m\x1b[K\n", fresh ? "" : "\x1b[2m", lines_[i]);
  }
  frame += "\x1b[J";
  if (screen_->has_keys())
    frame += fmt::format(
        "\x1b[{};1H\x1b[7m {} \x1b[0m", rows,
        options_.step
            ? "n next   space play   q quit"
            : fmt::format("{:.2g} s a turn   + faster   - slower   space pause   q quit", options_.delay));
  Screen::write(frame);
}

bool TableView::wait(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    const double left = std::max(0.0, std::chrono::duration<double>(end - Clock::now()).count());
    switch (screen_->key(left)) {
      case '\0':
        if (left == 0) return false;
        break;
      case 'q':
      case 3:  // Ctrl-C
      case 4:  // Ctrl-D
        stopped_ = true;
        return false;
      case ' ':
        options_.step = !options_.step;
        return true;
      case '+':
      case '=':
        options_.delay = std::max(kFastest, options_.delay / 1.5);
        return true;
      case '-':
        options_.delay = std::min(kSlowest, std::max(options_.delay, kFastest) * 1.5);
        return true;
      case 'n':
      case '\n':
      case '\r':
        return false;
      default:
        break;
    }
  }
}

bool TableView::show(const mahjong::Table& table, double times) {
  if (screen_ == nullptr) {
    for (std::size_t i = lines_.size() - std::min(said_, lines_.size()); i < lines_.size(); ++i)
      fmt::print("{}\n", lines_[i]);
    fmt::print("\n{}", mahjong::draw_table(table, false));
  } else {
    do draw(table);
    while (wait(options_.step && screen_->has_keys() ? kWaitForKey : times * options_.delay));
  }
  said_ = 0;
  return !stopped_;
}

}  // namespace ingot::cli
