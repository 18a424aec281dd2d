#include "ingot/train/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWindow = 100, kFirst = 50;  // steps that are remembered, and needed
constexpr double kDeviations = 3, kLeastRise = 0.5, kNormRatio = 10;
constexpr std::int64_t kReducedSteps = 50, kTemporary = 2, kMostSpikes = 5;
constexpr double kFactor = 0.5;

double mean(const std::deque<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::deque<double>& values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

void remember(std::deque<double>& values, double value) {
  values.push_back(value);
  if (values.size() > kWindow) values.pop_front();
}

}  // namespace

std::string_view name(PlateauAction action) {
  switch (action) {
    case PlateauAction::warn:
      return "warn";
    case PlateauAction::reduce:
      return "reduce";
    case PlateauAction::stop:
      return "stop";
  }
  return "";
}

PlateauAction parse_plateau_action(std::string_view word) {
  for (const PlateauAction action : {PlateauAction::warn, PlateauAction::reduce, PlateauAction::stop})
    if (word == name(action)) return action;
  throw InvalidConfig("plateau_action", fmt::format("must be warn, reduce or stop, got '{}'", word));
}

std::vector<EventRecord> LossWatch::note(const StepRecord& record) {
  std::vector<EventRecord> events;
  if (ended_ != Ended::no) return events;  // a step that had begun by then
  if (config_.threshold > 0) note_threshold(record, events);
  if (config_.reduces_on_spikes) note_spike(record, events);
  if (config_.plateau_steps > 0) note_plateau(record, events);
  return events;
}

void LossWatch::note_threshold(const StepRecord& record, std::vector<EventRecord>& events) {
  above_ = record.loss > config_.threshold ? above_ + 1 : 0;
  if (above_ < config_.patience) return;
  rose_at_ = record.step - above_ + 1;
  above_ = 0;
  ended_ = Ended::by_threshold;
  events.push_back(
      {.step = record.step,
       .kind = "loss_too_high",
       .text =
           fmt::format("the loss was above loss_watchdog_threshold {} in {}, from step {} on, and is {:.4g}: "
                       "the run ends. Lower learning_rate, or raise the threshold",
                       config_.threshold, counted(config_.patience, "step"), rose_at_, record.loss)});
}

// What is a spike in a step, in words; empty: nothing.
std::string LossWatch::spike_in(const StepRecord& record, EventRecord& event) const {
  const double loss = mean(losses_), spread = deviation(losses_, loss), norm = mean(norms_);
  const double rise = record.loss - loss;
  if (rise > kDeviations * spread && rise > kLeastRise) {
    event.kind = "loss_spike";
    return fmt::format("loss {:.4g}, where the {} before had {:.4g} ± {:.2g}", record.loss,
                       counted(std::ssize(losses_), "step"), loss, spread);
  }
  if (record.grad_norm > kNormRatio * norm && norm > 0) {
    event.kind = "gradient_spike";
    return fmt::format("gradient norm {:.4g}, where the {} before had {:.4g}", record.grad_norm,
                       counted(std::ssize(norms_), "step"), norm);
  }
  return "";
}

void LossWatch::note_spike(const StepRecord& record, std::vector<EventRecord>& events) {
  const bool looks = losses_.size() >= kFirst && spikes_ < kMostSpikes &&
                     (last_spike_ < 0 || record.step - last_spike_ > kReducedSteps);
  EventRecord event{.step = record.step};
  const std::string spike = looks ? spike_in(record, event) : "";
  if (!spike.empty()) {
    last_spike_ = record.step;
    const std::string done = reduce(record.step, ++spikes_ <= kTemporary ? kReducedSteps : 0, true);
    event.text = fmt::format("{}: {} (reduction {} of {})", spike, done, spikes_, kMostSpikes);
    events.push_back(std::move(event));
  }
  remember(losses_, record.loss);
  remember(norms_, record.grad_norm);
}

void LossWatch::note_plateau(const StepRecord& record, std::vector<EventRecord>& events) {
  block_sum_ += record.loss;
  if (++block_count_ < config_.plateau_steps) return;
  const double now = block_sum_ / static_cast<double>(block_count_), least = least_mean_;
  block_sum_ = 0;
  block_count_ = 0;
  const bool gains = blocks_++ == 0 || least - now > config_.plateau_threshold * std::abs(least);
  least_mean_ = blocks_ == 1 ? now : std::min(least, now);
  if (gains) return;
  std::string done = "lower learning_rate, or end the run";
  if (config_.plateau_action == PlateauAction::reduce) {
    done = reduce(record.step, 0, false);
  } else if (config_.plateau_action == PlateauAction::stop) {
    done = "the run ends";
    ended_ = Ended::by_plateau;
  }
  events.push_back(
      {.step = record.step,
       .kind = "plateau",
       .text = fmt::format("the mean loss of {} is {:.5g}, not {:.3g} % less than {:.5g}, the least "
                           "of as many before: {}",
                           counted(config_.plateau_steps, "step"), now, 100 * config_.plateau_threshold,
                           least, done)});
}

// For so many steps; 0: for all that follow. Returns what was done, in words.
std::string LossWatch::reduce(std::int64_t step, std::int64_t steps, bool of_spike) {
  const std::int64_t from = step + 2;
  reductions_.push_back({.from = from, .until = steps > 0 ? from + steps - 1 : 0, .of_spike = of_spike});
  return steps > 0 ? fmt::format("the learning rate is halved in steps {} to {}", from, from + steps - 1)
                   : fmt::format("the learning rate is halved from step {} on", from);
}

double LossWatch::lr_factor(std::int64_t step) const {
  double factor = 1;
  for (const Reduction& r : reductions_)
    if (step >= r.from && (r.until == 0 || step <= r.until)) factor *= kFactor;
  return factor;
}

std::string LossWatch::state() const {
  Json json = Json::object();
  json["reductions"] = Json::array();
  for (const Reduction& r : reductions_)
    json["reductions"].push_back({{"from", r.from}, {"until", r.until}, {"of_spike", r.of_spike}});
  if (config_.threshold > 0) json["threshold"] = {{"above", above_}};
  if (config_.reduces_on_spikes)
    json["spikes"] = {{"count", spikes_}, {"last", last_spike_}, {"losses", losses_}, {"norms", norms_}};
  if (config_.plateau_steps > 0)
    json["plateau"] = {{"steps", config_.plateau_steps}, {"sum", block_sum_}, {"count", block_count_},
                       {"least", least_mean_},           {"blocks", blocks_}, {"ended", ended_by_plateau()}};
  return dump_json(json);
}

void LossWatch::restore(const std::string& state) {
  const Json json = parse_json<Json>(state, "loss_watch");
  const bool keeps_plateaus = config_.plateau_steps > 0 && config_.plateau_action == PlateauAction::reduce;
  for (const Json& r : json.value("reductions", Json::array())) {
    const Reduction reduction{r.at("from"), r.at("until"), r.at("of_spike")};
    if (reduction.of_spike ? config_.reduces_on_spikes : keeps_plateaus) reductions_.push_back(reduction);
  }
  if (config_.threshold > 0 && json.contains("threshold")) above_ = json["threshold"].at("above");
  if (config_.reduces_on_spikes && json.contains("spikes")) {
    const Json& spikes = json["spikes"];
    spikes_ = spikes.at("count");
    last_spike_ = spikes.at("last");
    losses_ = spikes.at("losses").get<std::deque<double>>();
    norms_ = spikes.at("norms").get<std::deque<double>>();
  }
  if (config_.plateau_steps == 0 || !json.contains("plateau")) return;
  const Json& plateau = json["plateau"];
  if (plateau.at("steps") != config_.plateau_steps) return;  // their means are of other lengths
  block_sum_ = plateau.at("sum");
  block_count_ = plateau.at("count");
  least_mean_ = plateau.at("least");
  blocks_ = plateau.at("blocks");
  if (plateau.at("ended").get<bool>() && config_.plateau_action == PlateauAction::stop)
    ended_ = Ended::by_plateau;
}

}  // namespace ingot
