#pragma once

#include <iosfwd>

#include "ingot/mahjong/player.h"

namespace ingot::mahjong {

/// Follows a game from the events that one seat is shown, and knows at every moment what observe() would give
/// that seat at the table itself.
class SeatTracker {
 public:
  SeatTracker(const Rules& rules, int seat);

  /// Takes in the next event. Throws FormatError for one that cannot follow what came before.
  void on(const Event& event);
  const Observation& observation() const { return view_; }
  /// The legal actions, if this seat must act now.
  ActionList legal() const { return legal_actions(view_); }

 private:
  bool mine(int player) const { return player == view_.seat; }
  Seat& seat(int player) { return view_.pub.seats[static_cast<std::size_t>(player)]; }
  [[noreturn]] void fail(const Event& event, const std::string& problem) const;
  void take(const Event& event, Tile tile);
  void update_waits();
  void after_claim(const Event& event);
  void start_round(const Event& event);
  void draw(const Event& event);
  void discard(const Event& event);
  void call(const Event& event);
  void own_kan(const Event& event);
  void offer(Tile tile, ActionType what, int from);

  Observation view_{};
  bool in_round_ = false, kan_open_ = false;
};

/// Plays as an mjai client: reads events, one JSON object per line, and answers each with one line. A line
/// may also be an array of events, as the simulator mjai.app sends them: the answer is to the last. Ends at
/// end_game or at the end of the input. `seed` is for the player.
void run_mjai_client(std::istream& in, std::ostream& out, const Rules& rules, const PlayerFactory& make,
                     std::uint64_t seed);
/// The event that an action announces, as a client sends it ("none" for a pass).
std::string to_mjai(const Action& action, const Observation& observation);

}  // namespace ingot::mahjong
