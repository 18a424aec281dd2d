#include "ingot/kernels/cuda/runtime/autotune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ingot/base/env.h"

namespace ingot::kernels::cuda {
namespace {

using Seconds = FunctionRef<double(std::size_t, std::int64_t)>;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTrial = 5e-3, kSettling = 20e-3, kCounted = 20e-3;  // seconds of one candidate
constexpr double kMostOfFinal = 0.4;                                  // seconds of all rounds
constexpr double kMargin = 0.97;
constexpr std::size_t kFinalists = 3;

struct Candidate {
  std::size_t number;
  double once;                   // seconds, as its trial says
  std::vector<double> rounds{};  // seconds of doing it once
};

// How often to do what takes `once` to fill `duration`. The limit is for what takes no longer than the host
// needs to ask for it: that does not heat the GPU.
std::int64_t times_in(double duration, double once, double least) {
  return static_cast<std::int64_t>(std::clamp(std::ceil(duration / std::max(once, 1e-9)), least, 1000.0));
}

// Seconds of doing it once, by a short run; never where it fails.
double trial(std::size_t i, Seconds seconds) {
  if (seconds(i, 1) < 0) return kNever;  // code is loaded
  const double once = seconds(i, 1);
  if (once < 0) return kNever;
  const std::int64_t times = times_in(kTrial, once, 1);
  if (times == 1) return once;
  const double all = seconds(i, times);
  return all < 0 ? kNever : all / static_cast<double>(times);
}

// The first, where it does not fail, and then the fastest.
std::vector<Candidate> choose_finalists(std::size_t candidates, Seconds seconds) {
  std::vector<Candidate> chosen;
  for (std::size_t i = 0; i < candidates; ++i) {
    if (const double once = trial(i, seconds); once < kNever) chosen.push_back({i, once});
  }
  const bool first_works = !chosen.empty() && chosen.front().number == 0;
  std::ranges::stable_sort(chosen.begin() + (first_works ? 1 : 0), chosen.end(), {}, &Candidate::once);
  if (chosen.size() > kFinalists) chosen.erase(chosen.begin() + kFinalists, chosen.end());
  return chosen;
}

std::int64_t settling_times(const Candidate& c) { return times_in(kSettling, c.once, 1); }
std::int64_t counted_times(const Candidate& c) { return times_in(kCounted, c.once, 3); }

// An odd number: medians are of that many.
int rounds_for(const std::vector<Candidate>& finalists) {
  double round = 0;
  for (const Candidate& c : finalists)
    round += c.once * static_cast<double>(settling_times(c) + counted_times(c));
  return 3 * round <= kMostOfFinal ? 3 : 1;
}

double sustained(const Candidate& c, Seconds seconds) {
  if (seconds(c.number, settling_times(c)) < 0) return kNever;
  const double all = seconds(c.number, counted_times(c));
  return all < 0 ? kNever : all / static_cast<double>(counted_times(c));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::size_t fastest(std::size_t candidates, Seconds seconds) {
  std::vector<Candidate> finalists = choose_finalists(candidates, seconds);
  if (finalists.empty()) return 0;
  if (finalists.size() == 1) return finalists.front().number;
  const int rounds = rounds_for(finalists);
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& c : finalists) c.rounds.push_back(sustained(c, seconds));
  }
  std::size_t chosen = finalists.front().number;
  double best = median(finalists.front().rounds) * (chosen == 0 ? kMargin : 1.0);
  for (const Candidate& c : finalists) {
    if (const double time = median(c.rounds); time < best) {
      best = time;
      chosen = c.number;
    }
  }
  return chosen;
}

bool autotunes() {
  // Environment: INGOT_CUDA_AUTOTUNE=1 | matmul algorithms are chosen by timing them
  static const bool on = env_flag("CUDA_AUTOTUNE").value_or(false);
  return on;
}

}  // namespace ingot::kernels::cuda
