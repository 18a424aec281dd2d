#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// A learning-rate schedule: the factor for the optimizer's learning rate at a step, counted from 0 (the step
/// about to be made). A pure function, so resuming needs no state; it goes into StepOptions::lr_scale. The
/// structs below are schedules, and so is any such lambda.
using LrSchedule = std::function<double(std::int64_t step)>;

namespace schedule {

/// 1
struct Constant {
  double operator()(std::int64_t step) const;
};

/// From 1 to final_fraction in a straight line over `steps`, then constant.
struct Linear {
  std::int64_t steps = 1;
  double final_fraction = 0;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// Half a cosine from 1 to final_fraction over `steps` (Loshchilov and Hutter 2017), then constant.
struct Cosine {
  std::int64_t steps = 1;
  double final_fraction = 0;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// So many cosines from 1 to 0 one after the other over `steps` (Loshchilov and Hutter 2017), then 0.
struct CosineRestarts {
  std::int64_t steps = 1;
  double cycles = 1;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// From 1 to final_fraction by (1 - progress)^power over `steps`, then constant.
struct Polynomial {
  std::int64_t steps = 1;
  double final_fraction = 0;
  double power = 1;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// 1 / sqrt(1 + step / timescale)
struct InverseSqrt {
  std::int64_t timescale = 10000;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// gamma^step
struct Exponential {
  double gamma = 0.999;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// gamma^floor(step / every)
struct Step {
  std::int64_t every = 1;
  double gamma = 0.1;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// width^-0.5 * min(s^-0.5, s * warmup^-1.5) with s = step + 1 (Vaswani et al. 2017); for a learning rate
/// of 1.
struct Noam {
  std::int64_t width = 512;
  std::int64_t warmup = 4000;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// 1 for stable_steps, then a cooldown down to final_fraction over cooldown_steps: 1 - sqrt(progress) (Hägele
/// et al. 2024), half a cosine, or a straight line. With Warmup before it: warmup, stable, decay.
struct Wsd {
  enum class Decay : std::uint8_t { one_minus_sqrt, cosine, linear };
  std::int64_t stable_steps = 0;
  std::int64_t cooldown_steps = 1;
  double final_fraction = 0;
  Decay decay = Decay::one_minus_sqrt;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// From start_fraction to 1 in a straight line over `steps`; then `next`, whose step 0 is the first after it.
/// The first step has the factor start_fraction, so with 0 it changes nothing (as in transformers).
struct Warmup {
  std::int64_t steps = 0;
  LrSchedule next = Constant{};
  double start_fraction = 0;
  void validate() const;
  double operator()(std::int64_t step) const;
};

struct Phase {
  LrSchedule schedule;
  std::int64_t steps = 0;
};
/// One schedule after the other, each from its own step 0; the last goes on for ever.
struct Sequence {
  std::vector<Phase> phases;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// All at once, multiplied.
struct Product {
  std::vector<LrSchedule> factors;
  void validate() const;
  double operator()(std::int64_t step) const;
};

/// `next` of the epoch, counted from 0: every step of one has the same factor.
struct PerEpoch {
  std::int64_t steps = 1;  ///< of an epoch
  LrSchedule next = Constant{};
  void validate() const;
  double operator()(std::int64_t step) const;
};

}  // namespace schedule

/// A schedule as a run's configuration names it.
struct ScheduleConfig {
  /// constant, linear, cosine, cosine_with_restarts, polynomial, inverse_sqrt, exponential, step, noam, wsd
  std::string type = "cosine";
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;     ///< of the run, warmup included
  double final_lr_fraction = 0;     ///< linear, cosine, polynomial, wsd
  std::int64_t cooldown_steps = 0;  ///< wsd; 0: the last tenth of the run
  double gamma = 0.1;               ///< exponential, step
  std::int64_t step_size = 1;       ///< step
  std::int64_t width = 512;         ///< noam
  double num_cycles = 1;            ///< cosine_with_restarts
  double power = 1;                 ///< polynomial
  std::int64_t timescale = 0;       ///< inverse_sqrt; 0: warmup_steps, or 10000 without
  schedule::Wsd::Decay decay = schedule::Wsd::Decay::one_minus_sqrt;  ///< wsd
  void validate() const;
};

/// The schedule described, validated.
LrSchedule make_schedule(const ScheduleConfig& config);

}  // namespace ingot
