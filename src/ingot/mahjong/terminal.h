#pragma once

#include <iosfwd>

#include "ingot/mahjong/player.h"

namespace ingot::mahjong {

/// The table as one seat sees it, some fifteen lines of text. With `color`, ANSI colours mark red fives and
/// riichi.
std::string draw_table(const Observation& observation, bool color);
/// The table with every hand open, for watching.
std::string draw_table(const Table& table, bool color);
/// What an event means, one line ("player 1 discards 5mr"); empty for events not worth a line.
std::string describe(const Event& event);

/// A person at a terminal: shows the table and numbered actions, reads a number or a tile's name.
class TerminalPlayer : public ActionSelector {
 public:
  TerminalPlayer(std::istream& in, std::ostream& out, bool color) : in_(in), out_(out), color_(color) {}
  /// Throws Error when the input ends.
  Action select(const Observation& observation, const ActionList& legal) override;

 private:
  std::istream& in_;
  std::ostream& out_;
  bool color_;
};

}  // namespace ingot::mahjong
