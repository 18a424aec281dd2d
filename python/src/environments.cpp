#include <algorithm>

#include "bindings.h"
#include "held.h"
#include "one_at_a_time.h"
#include <nanobind/stl/unique_ptr.h>

#include "ingot/base/error.h"
#include "ingot/rl/environment.h"
#include "ingot/rl/named_environment.h"
#include "ingot/rl/seat_games.h"

namespace ingot::python {
namespace {

// The memory of a contiguous CPU tensor of the dtype and size wanted.
template <class T>
std::span<T> memory_of(const Tensor& x, std::int64_t size, const char* what) {
  if (!x.is_contiguous()) throw DimensionMismatch(std::string(what) + ": the tensor has to be contiguous");
  if (x.numel() != size) throw ShapeMismatch(what, {size}, {x.numel()});
  return {x.data<T>(), static_cast<std::size_t>(size)};
}

// Games with the legal actions of the positions as they are, once somebody has looked.
struct Games {
  explicit Games(std::unique_ptr<Environment> made) : environment(std::move(made)) {}
  std::unique_ptr<Environment> environment;
  std::vector<float> legal;
  bool looked = false;
  OneAtATime turns;

  std::int64_t count() const { return static_cast<std::int64_t>(environment->games()); }
  const EnvironmentSpec& spec() const { return environment->spec(); }

  void observe(std::span<float> observations, std::span<float> out) {
    environment->observe(observations, out);
    legal.assign(out.begin(), out.end());
    looked = true;
  }
  void check(std::span<const std::int32_t> actions) {
    const auto choices = static_cast<std::size_t>(spec().actions);
    if (!looked) {
      std::vector<float> seen(environment->games() * static_cast<std::size_t>(spec().observation_size()));
      std::vector<float> out(environment->games() * choices);
      observe(seen, out);
    }
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::int32_t action = actions[i];
      if (action < 0 || static_cast<std::size_t>(action) >= choices ||
          legal[i * choices + static_cast<std::size_t>(action)] == 0) {
        throw InvalidConfig(
            "actions", "action " + std::to_string(action) + " is not legal in game " + std::to_string(i));
      }
    }
  }
};

void bind_games(nb::module_& module) {
  nb::class_<Games>(module, "_Environment")
      .def_prop_ro("games", &Games::count)
      .def_prop_ro("players", [](const Games& self) { return self.spec().players; })
      .def_prop_ro("actions", [](const Games& self) { return self.spec().actions; })
      .def_prop_ro("observation",
                   [](const Games& self) { return nb::tuple(nb::cast(self.spec().observation)); })
      .def("to_move",
           [](Games& self) {
             const OneAtATime::Turn turn(self.turns, "a VectorGame");
             std::vector<std::int32_t> players(self.environment->games());
             for (std::size_t i = 0; i < players.size(); ++i) players[i] = self.environment->player(i);
             return Tensor::from(players, {static_cast<std::int64_t>(players.size())});
           })
      .def(
          "observe",
          [](Games& self, const Tensor& observations, const Tensor& legal) {
            const OneAtATime::Turn turn(self.turns, "a VectorGame");
            self.observe(
                memory_of<float>(observations, self.count() * self.spec().observation_size(), "observations"),
                memory_of<float>(legal, self.count() * self.spec().actions, "legal"));
          },
          "observations"_a, "legal"_a, ReleaseGil())
      .def(
          "step",
          [](Games& self, const Tensor& actions, const Tensor& rewards, const Tensor& ended, bool check) {
            const OneAtATime::Turn turn(self.turns, "a VectorGame");
            const std::span<std::int32_t> wanted = memory_of<std::int32_t>(actions, self.count(), "actions");
            if (check) self.check(wanted);
            self.looked = false;
            self.environment->step(wanted,
                                   memory_of<float>(rewards, self.count() * self.spec().players, "rewards"),
                                   memory_of<std::uint8_t>(ended, self.count(), "ended"));
          },
          "actions"_a, "rewards"_a, "ended"_a, "check"_a, ReleaseGil())
      .def("state",
           [](Games& self) {
             const OneAtATime::Turn turn(self.turns, "a VectorGame");
             const std::vector<std::byte> state = self.environment->state();
             return nb::bytes(state.data(), state.size());
           })
      .def(
          "restore",
          [](Games& self, const nb::bytes& state) {
            const OneAtATime::Turn turn(self.turns, "a VectorGame");
            self.environment->restore(std::as_bytes(std::span(state.c_str(), state.size())));
            self.looked = false;
          },
          "state"_a);
  module.def(
      "_make_environment",
      [](const std::string& name, std::size_t games, std::uint64_t seed) {
        return std::make_unique<Games>(make_environment(name, games, seed));
      },
      "name"_a, "games"_a, "seed"_a);
  module.def("_environment_names", environment_names);
}

// What decides for the other seats, a function of Python: (observations, legal) -> actions.
SeatGames::Decide decide_in_python(nb::object function, const EnvironmentSpec& spec) {
  const auto held = std::make_shared<Held>(std::move(function));
  return [held, spec](std::span<const std::size_t> games, std::span<const float> observations,
                      std::span<const float> legal, std::span<std::int32_t> actions) {
    const auto rows = static_cast<std::int64_t>(games.size());
    std::vector<std::int64_t> shape{rows};
    shape.insert(shape.end(), spec.observation.begin(), spec.observation.end());
    const AcquiredGil acquire;
    const nb::object chosen =
        held->get()(Tensor::from(observations, Shape(shape)), Tensor::from(legal, {rows, spec.actions}));
    const auto& tensor = nb::cast<const Tensor&>(chosen);
    std::ranges::copy(memory_of<std::int32_t>(tensor, rows, "the opponents' actions"), actions.begin());
  };
}

struct Seats {
  explicit Seats(std::unique_ptr<SeatGames> made) : games(std::move(made)) {}
  std::unique_ptr<SeatGames> games;
  OneAtATime turns;
};

void bind_seat_games(nb::module_& module) {
  nb::class_<Seats>(module, "_SeatGames")
      .def_prop_ro("actions", [](const Seats& self) { return self.games->spec().actions; })
      .def_prop_ro("observation",
                   [](const Seats& self) { return nb::tuple(nb::cast(self.games->spec().observation)); })
      .def(
          "observe",
          [](Seats& seats, const Tensor& observations, const Tensor& legal) {
            const OneAtATime::Turn turn(seats.turns, "a SeatGames");
            SeatGames& self = *seats.games;
            const auto games = static_cast<std::int64_t>(self.games());
            self.observe(
                memory_of<float>(observations, games * self.spec().observation_size(), "observations"),
                memory_of<float>(legal, games * self.spec().actions, "legal"));
          },
          "observations"_a, "legal"_a, ReleaseGil())
      .def(
          "step",
          [](Seats& seats, const Tensor& actions, const Tensor& rewards, const Tensor& ended) {
            const OneAtATime::Turn turn(seats.turns, "a SeatGames");
            SeatGames& self = *seats.games;
            const auto games = static_cast<std::int64_t>(self.games());
            self.step(memory_of<std::int32_t>(actions, games, "actions"),
                      memory_of<float>(rewards, games, "rewards"),
                      memory_of<std::uint8_t>(ended, games, "ended"));
          },
          "actions"_a, "rewards"_a, "ended"_a, ReleaseGil());
  module.def(
      "_make_seat_games",
      [](const std::string& name, std::size_t games, std::uint64_t seed, int seat, nb::object opponents) {
        if (nb::isinstance<nb::str>(opponents)) {
          const auto player = nb::cast<std::string>(opponents);
          const ReleasedGil release;
          return std::make_unique<Seats>(std::make_unique<SeatGames>(name, games, seed, seat, player));
        }
        SeatGames::Decide decide =
            decide_in_python(std::move(opponents), make_environment(name, 1, seed)->spec());
        const ReleasedGil release;
        return std::make_unique<Seats>(
            std::make_unique<SeatGames>(name, games, seed, seat, std::move(decide)));
      },
      "name"_a, "games"_a, "seed"_a, "seat"_a, "opponents"_a);
}

}  // namespace

void bind_environments(nb::module_& module) {
  bind_games(module);
  bind_seat_games(module);
}

}  // namespace ingot::python
