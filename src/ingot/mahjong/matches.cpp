#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"
#include "ingot/base/scope.h"
#include "ingot/mahjong/arena.h"

namespace ingot::mahjong {
namespace {

// One match in progress. Its own players answer at once; for networks it waits.
class Playing {
 public:
  Playing(const Rules& rules, const Seed& session, const Match& match)
      : match_(match), table_(start_game(rules, session, match.nonce, &events_)) {
    for (std::size_t seat = 0; seat < 4; ++seat)
      if (match.entrants[seat]->make) players_[seat] = match.entrants[seat]->make(match.seeds[seat]);
  }

  // Goes on until networks must answer, bit per seat, or the game is over: 0.
  unsigned advance(const std::function<void(const Events&)>& told) {
    while (!table_.over()) {
      if (table_.pub.phase == Phase::RoundOver) {
        told(events_);
        events_.clear();
        next_round(table_, &events_);
        continue;
      }
      if (const unsigned waiting = ask(); waiting != 0) return waiting;
      act();
    }
    told(events_);
    events_.clear();
    return 0;
  }

  Decision decision(std::size_t seat) const {
    const RngKey random{.seed = match_.seeds[seat]};
    return {observe(table_, static_cast<int>(seat)), legal_actions(table_, static_cast<int>(seat)),
            static_cast<double>(uniform_from_bits(random.block(decisions_)[0]))};
  }
  void answer(std::size_t seat, const Action& action) { answers_[seat] = action; }
  void act() {
    for (int seat = 0; seat < 4; ++seat) {
      if ((asked_ >> seat & 1) == 0) continue;
      const Action& action = answers_[static_cast<std::size_t>(seat)];
      if (!is_legal(table_, seat, action)) refuse(seat, action);
      apply_trusted(table_, seat, action, &events_);
    }
    ++decisions_;
  }
  const Table& table() const { return table_; }

 private:
  // All who are asked see the same table: nobody's answer shows in another's observation.
  unsigned ask() {
    asked_ = table_.to_act();
    unsigned waiting = 0;
    for (std::size_t seat = 0; seat < 4; ++seat) {
      if ((asked_ >> seat & 1) == 0) continue;
      const auto player = static_cast<int>(seat);
      const ActionList legal = legal_actions(table_, player);
      if (legal.size() == 1)
        answers_[seat] = legal[0];
      else if (players_[seat] != nullptr)
        answers_[seat] = players_[seat]->select(observe(table_, player), legal);
      else
        waiting |= 1U << seat;
    }
    return waiting;
  }
  [[noreturn]] void refuse(int seat, const Action& action) {
    const std::string& name = match_.entrants[static_cast<std::size_t>(seat)]->name;
    throw IllegalAction(
        fmt::format("{}, player {} of game {}, may not {} now", name, seat, match_.nonce, to_string(action)));
  }

  const Match& match_;
  Events events_;
  Table table_;
  std::array<std::unique_ptr<ActionSelector>, 4> players_;
  std::array<Action, 4> answers_{};
  unsigned asked_ = 0;
  std::uint64_t decisions_ = 0;
};

// Matches that are played together, up to so many. A network's kernels want rows, and memory is finite.
constexpr std::size_t kTogether = 256;

class Hall {
 public:
  Hall(const Rules& rules, const Seed& session, std::span<const Match> matches,
       const std::function<void(std::size_t, const Events&)>& told,
       const std::function<void(std::size_t, const Table&)>& ended)
      : rules_(rules), session_(session), matches_(matches), told_(told), ended_(ended) {}

  void play() {
    do {
      fill();
      advance();
      ask_networks();
    } while (!slots_.empty() || next_ < matches_.size());
  }

 private:
  struct Slot {
    std::size_t match;
    std::unique_ptr<Playing> playing;
    unsigned waiting;
  };

  void fill() {
    while (slots_.size() < kTogether && next_ < matches_.size()) slots_.push_back({next_++, nullptr, 0});
  }
  void advance() {
    parallel_share(std::ssize(slots_), 1, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        Slot& slot = slots_[i];
        const Scope scope(ScopeKind::work, "game", static_cast<std::int64_t>(slot.match));
        if (slot.playing == nullptr)
          slot.playing = std::make_unique<Playing>(rules_, session_, matches_[slot.match]);
        else
          slot.playing->act();
        slot.waiting = slot.playing->advance([&](const Events& events) { told_(slot.match, events); });
        if (slot.waiting == 0) ended_(slot.match, slot.playing->table());
      }
    });
    std::erase_if(slots_, [](const Slot& slot) { return slot.waiting == 0; });
  }
  void ask_networks() {
    std::map<BatchSelector*, std::vector<std::pair<Playing*, std::size_t>>> asked;
    for (const Slot& slot : slots_)
      for (std::size_t seat = 0; seat < 4; ++seat)
        if ((slot.waiting >> seat & 1) != 0)
          asked[matches_[slot.match].entrants[seat]->batch.get()].emplace_back(slot.playing.get(), seat);
    for (const auto& [selector, seats] : asked) {
      const Scope scope(ScopeKind::work, "ask a network");
      std::vector<Decision> decisions;
      decisions.reserve(seats.size());
      for (const auto& [playing, seat] : seats) decisions.push_back(playing->decision(seat));
      std::vector<Action> actions(seats.size(), Action::pass());
      selector->select(decisions, actions);
      for (std::size_t i = 0; i < seats.size(); ++i) seats[i].first->answer(seats[i].second, actions[i]);
    }
  }

  const Rules& rules_;
  const Seed& session_;
  std::span<const Match> matches_;
  const std::function<void(std::size_t, const Events&)>& told_;
  const std::function<void(std::size_t, const Table&)>& ended_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

}  // namespace

void play_matches(const Rules& rules, const Seed& session, std::span<const Match> matches,
                  const std::function<void(std::size_t, const Events&)>& told,
                  const std::function<void(std::size_t, const Table&)>& ended) {
  Hall(rules, session, matches, told, ended).play();
}

}  // namespace ingot::mahjong
