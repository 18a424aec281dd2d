#pragma once

#include <optional>
#include <string>

namespace ingot::cli {

/// Reads lines that a person types: with editing and history where both standard input and output are
/// terminals and libedit is installed, else as they come. One at a time.
class LineEditor {
 public:
  /// `history`: the file that keeps lines from one run to the next, readable by its owner alone; empty: none.
  explicit LineEditor(std::string history);
  ~LineEditor() = default;
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next line, behind `prompt` (to stderr, and only where input is a terminal); nothing at the end, and
  /// where interrupt() was called since the last forget_interrupts().
  std::optional<std::string> read(const std::string& prompt);

  /// Ends the read that waits, or else the next one. Safe in a signal handler, of any thread.
  static void interrupt();
  static void forget_interrupts();

 private:
  struct Library;
  static const Library* library();
  void save_history() const;

  const Library* editor_ = nullptr;  // null: lines as they come
  std::string history_, last_;
};

}  // namespace ingot::cli
