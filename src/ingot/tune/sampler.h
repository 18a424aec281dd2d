#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ingot/tune/trial.h"

namespace ingot::tune {

struct SamplerOptions {
  std::string type = "tpe";  ///< "tpe", "random" or "grid"
  std::uint64_t seed = 0;
  // tpe
  std::int64_t startup_trials = 10;  ///< random until so many have finished
  std::int64_t candidates = 0;       ///< drawn from the good ones' density each time; 0: 20 for each number
                                     ///< (24 to 128), 24 beside choices (more cling to the first good one)
  bool multivariate = true;          ///< one density over all parameters; false: one for each
  double prior_weight = 1;           ///< of the whole range, in units of one trial

  /// Throws InvalidConfig naming "sampler.<key>".
  void validate() const;
};

/// Chooses the values of the next trial. Thread-compatible. What it draws depends on the seed, the trial's
/// number and the trials given, so parallel workers never draw alike.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// `trials` is the whole history, by number, which only grows; running ones count as bad ("constant liar"),
  /// so that workers spread out. There must be something left().
  virtual Values sample(std::int64_t number, const std::vector<Trial>& trials) = 0;
  /// How many trials there are still to make after these.
  virtual std::int64_t left(const std::vector<Trial>& /*trials*/) { return kWithoutEnd; }

  static constexpr std::int64_t kWithoutEnd = std::numeric_limits<std::int64_t>::max();
};

std::unique_ptr<Sampler> make_sampler(const SamplerOptions& options, const SearchSpace& space,
                                      Direction direction);

/// Every combination that no trial has had, whatever became of it; the last parameter fastest. Real
/// parameters need a step or a number of points.
std::unique_ptr<Sampler> make_grid_sampler(const SearchSpace& space);
/// Independent draws, uniform on each parameter's scale.
std::unique_ptr<Sampler> make_random_sampler(const SamplerOptions& options, const SearchSpace& space);
/// The tree-structured Parzen estimator (Bergstra et al. 2011), with the choices that Optuna 5 makes
/// (Watanabe 2023, "Tree-structured Parzen estimator", says what each does), but that failed trials are bad
/// ones, where Optuna forgets them.
std::unique_ptr<Sampler> make_tpe_sampler(const SamplerOptions& options, const SearchSpace& space,
                                          Direction direction);

}  // namespace ingot::tune
