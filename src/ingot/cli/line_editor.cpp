#include "ingot/cli/line_editor.h"

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/progress.h"
#include "ingot/base/shared_library.h"

namespace ingot::cli {
namespace {

constexpr int kKeptLines = 1000;

/// What a signal handler writes to, so that a signal ends a wait that had not yet begun, too, and whichever
/// thread the signal came to: the kernel picks any that does not block it.
class WakePipe {
 public:
  WakePipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) ends_ = {-1, -1};
  }
  void wake() const { [[maybe_unused]] const ssize_t written = ::write(ends_[1], "", 1); }
  void drain() const {
    std::array<char, 64> bytes{};
    while (::read(ends_[0], bytes.data(), bytes.size()) > 0) continue;
  }
  /// One byte of standard input; nothing at its end, or once woken.
  std::optional<char> next_byte() const {
    std::array<pollfd, 2> wait{pollfd{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                               pollfd{.fd = ends_[0], .events = POLLIN, .revents = 0}};
    while (true) {
      if (::poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) return std::nullopt;
      if ((wait[1].revents & POLLIN) != 0) return std::nullopt;
      char c = 0;
      if (wait[0].revents == 0) continue;
      const ssize_t count = ::read(STDIN_FILENO, &c, 1);
      if (count < 0 && errno == EINTR) continue;
      return count == 1 ? std::optional(c) : std::nullopt;
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

const WakePipe& wake_pipe() {
  static const WakePipe kPipe;
  return kPipe;
}

/// One line as it comes.
std::optional<std::string> plain_line() {
  std::string line;
  while (const std::optional<char> c = wake_pipe().next_byte()) {
    if (*c == '\n') return line;
    line += *c;
  }
  return line.empty() ? std::nullopt : std::optional(line);
}

/// What libedit asks for each letter: one of the locale's encoding, or -1 to end the line.
int next_letter(FILE* /*input*/) {
  std::mbstate_t state{};
  while (const std::optional<char> c = wake_pipe().next_byte()) {
    wchar_t letter = 0;
    const std::size_t used = std::mbrtowc(&letter, &*c, 1, &state);
    if (used == static_cast<std::size_t>(-2)) continue;  // more bytes of the letter follow
    return used == static_cast<std::size_t>(-1) ? static_cast<unsigned char>(*c) : static_cast<int>(letter);
  }
  return -1;
}

}  // namespace

/// GNU readline's functions, as libedit has them under its own licence.
struct LineEditor::Library {
  SharedLibrary library{std::array<std::string, 1>{"libedit.so.2"}};
  char* (*readline)(const char*) = nullptr;
  int (*add_history)(const char*) = nullptr;
  int (*read_history)(const char*) = nullptr;
  int (*write_history)(const char*) = nullptr;
  void (*using_history)() = nullptr;
  void (*stifle_history)(int) = nullptr;
  void (*rl_resize_terminal)() = nullptr;
  int (**rl_getc_function)(FILE*) = nullptr;
  int* rl_catch_signals = nullptr;
};

const LineEditor::Library* LineEditor::library() {
  static const Library* const kLibrary = [] {
    static Library found;
    found.library.find(found.readline, "readline");
    found.library.find(found.add_history, "add_history");
    found.library.find(found.read_history, "read_history");
    found.library.find(found.write_history, "write_history");
    found.library.find(found.using_history, "using_history");
    found.library.find(found.stifle_history, "stifle_history");
    found.library.find(found.rl_resize_terminal, "rl_resize_terminal");
    found.library.find(found.rl_getc_function, "rl_getc_function");
    found.library.find(found.rl_catch_signals, "rl_catch_signals");
    return found.library.problem().empty() ? &found : nullptr;
  }();
  return kLibrary;
}

LineEditor::LineEditor(std::string history) : history_(std::move(history)) {
  wake_pipe();  // opened here, since interrupt() runs in signal handlers
  if (!is_terminal(STDIN_FILENO) || !is_terminal(STDOUT_FILENO)) return;
  editor_ = library();
  if (editor_ == nullptr) return;
  std::setlocale(LC_CTYPE, "");  // or letters beyond ASCII are several
  // Its handlers expect the thread that reads, and a signal may come to a worker thread.
  *editor_->rl_catch_signals = 0;
  *editor_->rl_getc_function = next_letter;
  editor_->using_history();
  editor_->stifle_history(kKeptLines);
  if (!history_.empty()) editor_->read_history(history_.c_str());
}

// After every line, as a terminal that is closed ends the program; and beside the file first, as the library
// empties what it writes to.
void LineEditor::save_history() const {
  if (history_.empty()) return;
  const std::filesystem::path path = history_, beside = fmt::format("{}.{}", history_, ::getpid());
  try {
    make_directories(path.parent_path().string());
  } catch (const Error&) {
    return;  // a home that cannot be written to has no history
  }
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  ::close(fd);
  std::error_code error;
  if (editor_->write_history(beside.c_str()) == 0) std::filesystem::rename(beside, path, error);
  std::filesystem::remove(beside, error);
}

void LineEditor::interrupt() { wake_pipe().wake(); }

void LineEditor::forget_interrupts() { wake_pipe().drain(); }

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (editor_ == nullptr) {
    if (isatty(STDIN_FILENO) == 1) std::fputs(prompt.c_str(), stderr);
    return plain_line();
  }
  std::fflush(stdout);
  editor_->rl_resize_terminal();
  char* typed = editor_->readline(prompt.c_str());
  if (typed == nullptr) return std::nullopt;
  std::string line = typed;
  std::free(typed);  // NOLINT(cppcoreguidelines-no-malloc): the library's way to hand over a line
  if (!line.empty() && line != last_) editor_->add_history(line.c_str());
  last_ = line;
  save_history();
  return line;
}

}  // namespace ingot::cli
