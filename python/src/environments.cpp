#include "bindings.h"
#include <nanobind/stl/unique_ptr.h>

#include "ingot/base/error.h"
#include "ingot/rl/environment.h"
#include "ingot/rl/named_environment.h"

namespace ingot::python {
namespace {

// The memory of a contiguous CPU tensor of the dtype and size wanted.
template <class T>
std::span<T> memory_of(const Tensor& x, std::int64_t size, const char* what) {
  if (!x.is_contiguous()) throw DimensionMismatch(std::string(what) + ": the tensor has to be contiguous");
  if (x.numel() != size) throw ShapeMismatch(what, {size}, {x.numel()});
  return {x.data<T>(), static_cast<std::size_t>(size)};
}

void check_legal(const Environment& self, std::span<const std::int32_t> actions) {
  const std::int64_t count = self.spec().actions;
  std::vector<float> seen(self.games() * static_cast<std::size_t>(self.spec().observation_size()));
  std::vector<float> legal(self.games() * static_cast<std::size_t>(count));
  self.observe(seen, legal);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::int32_t action = actions[i];
    if (action < 0 || action >= count ||
        legal[i * static_cast<std::size_t>(count) + static_cast<std::size_t>(action)] == 0) {
      throw InvalidConfig("actions",
                          "action " + std::to_string(action) + " is not legal in game " + std::to_string(i));
    }
  }
}

}  // namespace

void bind_environments(nb::module_& module) {
  nb::class_<Environment>(module, "_Environment")
      .def_prop_ro("games", &Environment::games)
      .def_prop_ro("players", [](const Environment& self) { return self.spec().players; })
      .def_prop_ro("actions", [](const Environment& self) { return self.spec().actions; })
      .def_prop_ro("observation",
                   [](const Environment& self) { return nb::tuple(nb::cast(self.spec().observation)); })
      .def("player", &Environment::player, "game"_a)
      .def("to_move",
           [](const Environment& self) {
             std::vector<std::int32_t> players(self.games());
             for (std::size_t i = 0; i < players.size(); ++i) players[i] = self.player(i);
             return Tensor::from(players, {static_cast<std::int64_t>(players.size())});
           })
      .def(
          "observe",
          [](const Environment& self, const Tensor& observations, const Tensor& legal) {
            const auto games = static_cast<std::int64_t>(self.games());
            self.observe(
                memory_of<float>(observations, games * self.spec().observation_size(), "observations"),
                memory_of<float>(legal, games * self.spec().actions, "legal"));
          },
          "observations"_a, "legal"_a, ReleaseGil())
      .def(
          "step",
          [](Environment& self, const Tensor& actions, const Tensor& rewards, const Tensor& ended,
             bool check) {
            const auto games = static_cast<std::int64_t>(self.games());
            const std::span<std::int32_t> wanted = memory_of<std::int32_t>(actions, games, "actions");
            if (check) check_legal(self, wanted);
            self.step(wanted, memory_of<float>(rewards, games * self.spec().players, "rewards"),
                      memory_of<std::uint8_t>(ended, games, "ended"));
          },
          "actions"_a, "rewards"_a, "ended"_a, "check"_a, ReleaseGil())
      .def("state",
           [](const Environment& self) {
             const std::vector<std::byte> state = self.state();
             return nb::bytes(state.data(), state.size());
           })
      .def(
          "restore",
          [](Environment& self, const nb::bytes& state) {
            self.restore(std::as_bytes(std::span(state.c_str(), state.size())));
          },
          "state"_a);
  module.def("_make_environment", make_environment, "name"_a, "games"_a, "seed"_a);
}

}  // namespace ingot::python
