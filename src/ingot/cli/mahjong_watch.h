#pragma once

#include <deque>
#include <memory>
#include <string>

#include "ingot/mahjong/table.h"

namespace ingot::cli {

/// Shows a mahjong table, every hand open. On a terminal in place, at a speed that the person changes by
/// keys; into a file or pipe one table after another, without waiting.
class TableView {
 public:
  struct Options {
    double delay = 0.7;  ///< seconds between tables
    bool step = false;   ///< wait for a key instead
  };
  explicit TableView(const Options& options);
  ~TableView();  // gives the terminal back as it was
  TableView(const TableView&) = delete;
  TableView& operator=(const TableView&) = delete;

  /// A line of what happened, for below the next table.
  void say(const std::string& line);
  /// Draws the table and waits, `times` as long as usual. False: the person wants to stop.
  bool show(const mahjong::Table& table, double times = 1);

 private:
  class Screen;
  void draw(const mahjong::Table& table);
  /// True: a key changed how to show, and the table is to be drawn and waited for again.
  bool wait(double seconds);
  Options options_;
  std::unique_ptr<Screen> screen_;  // empty where there is no terminal
  std::deque<std::string> lines_;
  std::size_t said_ = 0;  // lines since the last table
  bool stopped_ = false;
};

}  // namespace ingot::cli
