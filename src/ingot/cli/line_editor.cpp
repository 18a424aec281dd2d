#include "ingot/cli/line_editor.h"

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/progress.h"
#include "ingot/base/shared_library.h"

namespace ingot::cli {
namespace {

constexpr int kKeptLines = 1000;

/// One line as it comes. getc starts a read again after a signal; read() does not.
std::optional<std::string> plain_line() {
  std::string line;
  char c = 0;
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, &c, 1);
    if (count <= 0) return line.empty() || count < 0 ? std::nullopt : std::optional(line);
    if (c == '\n') return line;
    line += c;
  }
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
    return found.library.problem().empty() ? &found : nullptr;
  }();
  return kLibrary;
}

LineEditor::LineEditor(std::string history) : history_(std::move(history)) {
  if (!is_terminal(STDIN_FILENO) || !is_terminal(STDOUT_FILENO)) return;
  editor_ = library();
  if (editor_ == nullptr) return;
  std::setlocale(LC_CTYPE, "");  // or letters beyond ASCII are several
  editor_->using_history();
  editor_->stifle_history(kKeptLines);
  if (!history_.empty()) editor_->read_history(history_.c_str());
}

LineEditor::~LineEditor() {
  if (editor_ == nullptr || history_.empty()) return;
  try {
    make_directories(std::filesystem::path(history_).parent_path().string());
  } catch (const Error&) {
    return;  // a home that cannot be written to has no history
  }
  const int fd = ::open(history_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  ::close(fd);
  editor_->write_history(history_.c_str());
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (editor_ == nullptr) {
    if (isatty(STDIN_FILENO) == 1) std::fputs(prompt.c_str(), stderr);
    return plain_line();
  }
  std::fflush(stdout);
  char* typed = editor_->readline(prompt.c_str());
  if (typed == nullptr) return std::nullopt;
  std::string line = typed;
  std::free(typed);  // NOLINT(cppcoreguidelines-no-malloc): the library's way to hand over a line
  if (!line.empty() && line != last_) editor_->add_history(line.c_str());
  last_ = line;
  return line;
}

}  // namespace ingot::cli
