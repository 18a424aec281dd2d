#include "ingot/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"

namespace ingot::tune {

void TunerOptions::validate() const {
  INGOT_CHECK(
      goals.size() != 1,
      InvalidConfig("objectives", "holds one; say `direction` and leave objectives out, or give several"));
  for (const Goal& goal : goals)
    INGOT_CHECK(std::ranges::count(goals, goal.name, &Goal::name) == 1,
                InvalidConfig("objectives", fmt::format("names '{}' twice", goal.name)));
  INGOT_CHECK(
      goals.empty() || pruner.type == "none",
      InvalidConfig("pruner.type", fmt::format("is {}, which compares one value; with several objectives "
                                               "it has to be none",
                                               pruner.type)));
  space.validate();
  sampler.validate();
  INGOT_CHECK(!space.open || sampler.type != "grid",
              InvalidConfig("sampler.type",
                            "is grid, which has to know the space before its trials; give the space"));
  pruner.validate();
  INGOT_CHECK(trials >= 1, InvalidConfig("trials", fmt::format("must be at least 1, got {}", trials)));
  INGOT_CHECK(lease_seconds > 0 && std::isfinite(lease_seconds),
              InvalidConfig("lease_seconds", fmt::format("must be above 0, got {}", lease_seconds)));
  INGOT_CHECK(max_attempts >= 1,
              InvalidConfig("max_attempts", fmt::format("must be at least 1, got {}", max_attempts)));
}

struct Tuner::State {
  TunerOptions options;
  std::unique_ptr<Sampler> sampler;
  StudyStore store;

  // The heart: beats for the trials that run here. `mutex` guards the store, too.
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Trial> running;
  bool ending = false;
  std::thread heart;

  explicit State(TunerOptions o)
      : options(std::move(o)),
        // Several objectives become one rank, of which less is better.
        sampler(options.space.open ? nullptr : make_sampler(options.sampler, options.space, sampled())),
        store(options.study, {options.space, options.direction, options.objective, options.goals},
              {options.lease_seconds, options.max_attempts}) {}

  Direction sampled() const { return options.goals.empty() ? options.direction : Direction::minimize; }

  double sample_one(const Parameter& parameter, std::size_t index, std::int64_t number,
                    const std::vector<Trial>& trials) const;

  // A grid ends when it is through, whatever samplers the trials before it came from.
  std::int64_t budget(const std::vector<Trial>& trials) const {
    if (sampler == nullptr) return options.trials;
    const std::int64_t begun = std::ssize(trials), left = sampler->left(trials);
    return left < options.trials - begun ? begun + left : options.trials;
  }

  void keep_beating();
  void forget(const Trial& trial) {
    std::erase_if(running, [&](const Trial& other) { return other.number == trial.number; });
  }
  void finish(Trial& trial, TrialState state, const std::vector<double>& objectives, const std::string& note);
};

void Tuner::State::keep_beating() {
  std::unique_lock lock(mutex);
  while (!ending) {
    wake.wait_for(lock, std::chrono::duration<double>(options.lease_seconds / 4));
    if (ending) return;
    for (const Trial& trial : running) {
      try {
        store.beat(trial);
      } catch (const Error&) {
        // A lost lease or a full disk is told by the next report, which somebody can catch.
      }
    }
  }
}

// Trials that had no such parameter, or one outside of the range asked for, say nothing about it.
double Tuner::State::sample_one(const Parameter& parameter, std::size_t index, std::int64_t number,
                                const std::vector<Trial>& trials) const {
  const SearchSpace alone{{parameter}};
  std::vector<Trial> history;
  history.reserve(trials.size());
  std::vector<Trial> ranked;
  if (!options.goals.empty()) ranked = ranked_by_front(trials, options.goals);
  for (const Trial& trial : options.goals.empty() ? trials : ranked) {
    const Values value{trial.values[index]};
    if (std::isnan(value[0]) || !alone.contains(value)) continue;
    history.push_back(trial);
    history.back().values = value;
  }
  // Parameters of one trial draw numbers of their own.
  SamplerOptions own = options.sampler;
  for (const char letter : parameter.name)
    own.seed = mix_stream(own.seed, static_cast<unsigned char>(letter));
  return make_sampler(own, alone, sampled())->sample(number, history)[0];
}

void Tuner::State::finish(Trial& trial, TrialState state, const std::vector<double>& objectives,
                          const std::string& note) {
  const std::lock_guard lock(mutex);
  try {
    store.finish(trial, state, objectives, note);
  } catch (const TrialLost&) {
    forget(trial);
    throw;
  }
  forget(trial);
}

Tuner::Tuner(TunerOptions options) {
  options.validate();
  state_ = std::make_unique<State>(std::move(options));
  if (!state_->options.study.empty()) state_->heart = std::thread([s = state_.get()] { s->keep_beating(); });
}

Tuner::~Tuner() {
  if (state_->heart.joinable()) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->ending = true;
    }
    state_->wake.notify_all();
    state_->heart.join();
  }
  put_back();
}

void Tuner::put_back() {
  const std::lock_guard lock(state_->mutex);
  for (const Trial& trial : state_->running) {
    try {
      state_->store.release(trial);
    } catch (const Error&) {
      // Its lease will run out.
    }
  }
  state_->running.clear();
}

std::optional<Trial> Tuner::suggest() {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  std::optional<Trial> trial = s.store.claim([&](const std::vector<Trial>& trials) -> std::optional<Values> {
    const std::int64_t number = std::ssize(trials);
    if (number >= s.budget(trials)) return std::nullopt;
    if (s.sampler == nullptr) return Values(s.store.space().size(), kAbsent);
    return s.options.goals.empty() ? s.sampler->sample(number, trials)
                                   : s.sampler->sample(number, ranked_by_front(trials, s.options.goals));
  });
  if (trial.has_value()) s.running.push_back(*trial);
  return trial;
}

double Tuner::choose(Trial& trial, const Parameter& parameter) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  INGOT_CHECK(s.sampler == nullptr,
              InvalidConfig(fmt::format("space.{}", parameter.name),
                            "was asked for in a study whose space is given; its trials have their values"));
  return s.store.choose(trial, parameter, [&](std::size_t index, const std::vector<Trial>& trials) {
    return s.sample_one(parameter, index, trial.number, trials);
  });
}

bool Tuner::report(Trial& trial, std::int64_t step, double value) {
  State& s = *state_;
  bool prune = false;
  {
    const std::lock_guard lock(s.mutex);
    INGOT_CHECK(trial.reports.empty() || step > trial.reports.back().step,
                InvalidConfig("step", fmt::format("trial {} reported step {} after step {}; steps must grow",
                                                  trial.number, step, trial.reports.back().step)));
    INGOT_CHECK(step >= 0, InvalidConfig("step", fmt::format("trial {} reported step {}; steps count from 0",
                                                             trial.number, step)));
    s.store.report(trial, step, value);
    prune = should_prune(s.options.pruner, s.options.direction, trial, s.store.trials());
  }
  if (prune) {
    this->prune(trial, std::isnan(value)
                           ? fmt::format("{}what it reported at step {} is not a number", kDiverged, step)
                           : fmt::format("by {} at step {}", s.options.pruner.type, step));
  }
  return prune;
}

void Tuner::complete(Trial& trial, double value) { complete(trial, std::vector<double>{value}); }

void Tuner::complete(Trial& trial, const std::vector<double>& objectives) {
  const std::size_t wanted = std::max<std::size_t>(state_->options.goals.size(), 1);
  INGOT_CHECK(objectives.size() == wanted,
              InvalidConfig("objectives", fmt::format("trial {} has {} values; the study has {} objectives",
                                                      trial.number, objectives.size(), wanted)));
  if (std::ranges::any_of(objectives, [](double value) { return std::isnan(value); }))
    return fail(trial, "its value is not a number");
  state_->finish(trial, TrialState::complete, objectives, "");
}

void Tuner::prune(Trial& trial, const std::string& why) {
  state_->finish(trial, TrialState::pruned, {}, why);
}

void Tuner::fail(Trial& trial, const std::string& why) { state_->finish(trial, TrialState::failed, {}, why); }

void Tuner::retry(const std::vector<Trial>& failed) {
  const std::lock_guard lock(state_->mutex);
  for (const Trial& trial : failed) state_->store.retry(trial);
}

bool Tuner::is_complete() {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  s.store.reclaim();
  return std::ranges::count_if(s.store.trials(), &Trial::finished) >= s.budget(s.store.trials());
}

std::optional<Trial> Tuner::best_trial() {
  const std::vector<Trial> all = trials();
  const Trial* best = best_of(all, direction());
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::vector<Trial> Tuner::best_trials() {
  if (!goals().empty()) return pareto_front(trials(), goals());
  const std::optional<Trial> best = best_trial();
  return best ? std::vector<Trial>{*best} : std::vector<Trial>{};
}

std::vector<Trial> Tuner::trials() {
  const std::lock_guard lock(state_->mutex);
  state_->store.sync();
  return state_->store.trials();
}

std::int64_t Tuner::budget() const {
  const std::lock_guard lock(state_->mutex);
  return state_->budget(state_->store.trials());
}
std::string Tuner::parameters(const Trial& trial) const {
  const std::lock_guard lock(state_->mutex);
  return state_->store.space().to_json(trial.values);
}
SearchSpace Tuner::space() const {
  const std::lock_guard lock(state_->mutex);
  return state_->store.space();
}
const std::vector<Goal>& Tuner::goals() const { return state_->options.goals; }
Direction Tuner::direction() const {
  return goals().empty() ? state_->options.direction : goals()[0].direction;
}

}  // namespace ingot::tune
