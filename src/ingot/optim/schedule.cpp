#include "ingot/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"

namespace ingot {
namespace {

constexpr std::array<std::string_view, 10> kTypes = {
    "constant", "linear", "cosine", "cosine_with_restarts", "polynomial", "inverse_sqrt", "exponential",
    "step",     "noam",   "wsd"};

void check_at_least(const char* key, std::int64_t value, std::int64_t least) {
  INGOT_CHECK(value >= least, InvalidConfig(key, fmt::format("must be at least {}, got {}", least, value)));
}

void check_fraction(const char* key, double value) {
  INGOT_CHECK(value >= 0 && value <= 1, InvalidConfig(key, fmt::format("must be in [0, 1], got {}", value)));
}

void check_gamma(double value) {
  INGOT_CHECK(value > 0 && value <= 1,
              InvalidConfig("lr_scheduler.gamma", fmt::format("must be in (0, 1], got {}", value)));
}

double progress(std::int64_t step, std::int64_t steps) {
  return std::clamp(static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(steps, 1)), 0.0,
                    1.0);
}

double between(double final_fraction, double factor) {
  return final_fraction + (1 - final_fraction) * factor;
}

// From 1 to 0.
double half_cosine(double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * progress)); }

}  // namespace

namespace schedule {

double Constant::operator()(std::int64_t) const { return 1; }

void Linear::validate() const {
  check_at_least("lr_scheduler.steps", steps, 1);
  check_fraction("lr_scheduler.final_lr_fraction", final_fraction);
}
double Linear::operator()(std::int64_t step) const {
  return between(final_fraction, 1 - progress(step, steps));
}

void Cosine::validate() const {
  check_at_least("lr_scheduler.steps", steps, 1);
  check_fraction("lr_scheduler.final_lr_fraction", final_fraction);
}
double Cosine::operator()(std::int64_t step) const {
  return between(final_fraction, half_cosine(progress(step, steps)));
}

void CosineRestarts::validate() const {
  check_at_least("lr_scheduler.steps", steps, 1);
  INGOT_CHECK(cycles > 0,
              InvalidConfig("lr_scheduler.num_cycles", fmt::format("must be positive, got {}", cycles)));
}
double CosineRestarts::operator()(std::int64_t step) const {
  const double done = progress(step, steps);
  return done >= 1 ? 0 : half_cosine(std::fmod(cycles * done, 1.0));
}

void Polynomial::validate() const {
  check_at_least("lr_scheduler.steps", steps, 1);
  check_fraction("lr_scheduler.final_lr_fraction", final_fraction);
  INGOT_CHECK(power > 0, InvalidConfig("lr_scheduler.power", fmt::format("must be positive, got {}", power)));
}
double Polynomial::operator()(std::int64_t step) const {
  return between(final_fraction, std::pow(1 - progress(step, steps), power));
}

void InverseSqrt::validate() const { check_at_least("lr_scheduler.timescale", timescale, 1); }
double InverseSqrt::operator()(std::int64_t step) const {
  return 1 / std::sqrt(1 + static_cast<double>(step) / static_cast<double>(timescale));
}

void Exponential::validate() const { check_gamma(gamma); }
double Exponential::operator()(std::int64_t step) const { return std::pow(gamma, static_cast<double>(step)); }

void Step::validate() const {
  check_at_least("lr_scheduler.step_size", every, 1);
  check_gamma(gamma);
}
double Step::operator()(std::int64_t step) const {
  const std::int64_t drops = step / every;
  return std::pow(gamma, static_cast<double>(drops));
}

void Noam::validate() const {
  check_at_least("lr_scheduler.width", width, 1);
  check_at_least("lr_scheduler.warmup_steps", warmup, 1);
}
double Noam::operator()(std::int64_t step) const {
  const auto s = static_cast<double>(step + 1);
  return std::min(std::pow(s, -0.5), s * std::pow(static_cast<double>(warmup), -1.5)) /
         std::sqrt(static_cast<double>(width));
}

void Wsd::validate() const {
  check_at_least("lr_scheduler.stable_steps", stable_steps, 0);
  check_at_least("lr_scheduler.cooldown_steps", cooldown_steps, 1);
  check_fraction("lr_scheduler.final_lr_fraction", final_fraction);
}
double Wsd::operator()(std::int64_t step) const {
  const double done = progress(step - stable_steps, cooldown_steps);
  return between(final_fraction, decay == Decay::cosine   ? half_cosine(done)
                                 : decay == Decay::linear ? 1 - done
                                                          : 1 - std::sqrt(done));
}

void Warmup::validate() const {
  check_at_least("lr_scheduler.warmup_steps", steps, 0);
  check_fraction("lr_scheduler.start_fraction", start_fraction);
  INGOT_CHECK(next != nullptr, InvalidConfig("lr_scheduler.next", "no schedule follows the warmup"));
}
double Warmup::operator()(std::int64_t step) const {
  return step < steps ? between(start_fraction, progress(step, steps)) : next(step - steps);
}

void Sequence::validate() const {
  INGOT_CHECK(!phases.empty(), InvalidConfig("lr_scheduler.phases", "there are none"));
  for (const Phase& phase : phases) {
    check_at_least("lr_scheduler.phases", phase.steps, 0);
    INGOT_CHECK(phase.schedule != nullptr, InvalidConfig("lr_scheduler.phases", "one has no schedule"));
  }
}
double Sequence::operator()(std::int64_t step) const {
  for (std::size_t i = 0; i + 1 < phases.size(); ++i) {
    if (step < phases[i].steps) return phases[i].schedule(step);
    step -= phases[i].steps;
  }
  return phases.back().schedule(step);
}

void PerEpoch::validate() const {
  check_at_least("lr_scheduler.epoch_steps", steps, 1);
  INGOT_CHECK(next != nullptr, InvalidConfig("lr_scheduler.next", "there is no schedule of epochs"));
}
double PerEpoch::operator()(std::int64_t step) const { return next(step / steps); }

void Product::validate() const {
  for (const LrSchedule& factor : factors) {
    INGOT_CHECK(factor != nullptr, InvalidConfig("lr_scheduler.factors", "one is empty"));
  }
}
double Product::operator()(std::int64_t step) const {
  double result = 1;
  for (const LrSchedule& factor : factors) result *= factor(step);
  return result;
}

}  // namespace schedule

void ScheduleConfig::validate() const {
  INGOT_CHECK(std::ranges::find(kTypes, type) != kTypes.end(),
              InvalidConfig("lr_scheduler_type",
                            fmt::format("there is no '{}'; choose from {}", type, fmt::join(kTypes, ", "))));
  check_at_least("warmup_steps", warmup_steps, type == "noam" ? 1 : 0);
  check_at_least("total_steps", total_steps, 1);
  INGOT_CHECK(warmup_steps <= total_steps,
              InvalidConfig("warmup_steps", fmt::format("{} steps of warmup do not fit into {} steps in all",
                                                        warmup_steps, total_steps)));
  check_fraction("final_lr_fraction", final_lr_fraction);
  check_at_least("cooldown_steps", cooldown_steps, 0);
  INGOT_CHECK(
      type != "wsd" || warmup_steps + cooldown_steps <= total_steps,
      InvalidConfig("cooldown_steps", fmt::format("{} steps after {} of warmup do not fit into {} in all",
                                                  cooldown_steps, warmup_steps, total_steps)));
  if (type == "exponential" || type == "step") check_gamma(gamma);
  check_at_least("step_size", step_size, 1);
  check_at_least("width", width, 1);
}

LrSchedule make_schedule(const ScheduleConfig& c) {
  c.validate();
  if (c.type == "noam") return schedule::Noam{c.width, c.warmup_steps};
  const std::int64_t steps = std::max<std::int64_t>(c.total_steps - c.warmup_steps, 1);
  LrSchedule next = schedule::Constant{};
  if (c.type == "linear") next = schedule::Linear{steps, c.final_lr_fraction};
  if (c.type == "cosine") next = schedule::Cosine{steps, c.final_lr_fraction};
  if (c.type == "cosine_with_restarts") next = validated(schedule::CosineRestarts{steps, c.num_cycles});
  if (c.type == "polynomial") next = validated(schedule::Polynomial{steps, c.final_lr_fraction, c.power});
  if (c.type == "inverse_sqrt") {
    const std::int64_t usual = c.warmup_steps > 0 ? c.warmup_steps : schedule::InverseSqrt{}.timescale;
    next = validated(schedule::InverseSqrt{c.timescale > 0 ? c.timescale : usual});
  }
  if (c.type == "exponential") next = schedule::Exponential{c.gamma};
  if (c.type == "step") next = schedule::Step{c.step_size, c.gamma};
  if (c.type == "wsd") {
    std::int64_t cooldown =
        c.cooldown_steps > 0 ? c.cooldown_steps : std::max<std::int64_t>(c.total_steps / 10, 1);
    cooldown = std::min(cooldown, steps);
    next = schedule::Wsd{steps - cooldown, cooldown, c.final_lr_fraction, c.decay};
  }
  return c.warmup_steps > 0 ? LrSchedule(schedule::Warmup{c.warmup_steps, next}) : next;
}

}  // namespace ingot
