#include "ingot/train/language/grpo_rollout.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

// An answer as numbers: which it is, its prompt's tokens, whether it ended, all its tokens' count, and these.
constexpr std::size_t kHeader = 4;

void append(std::vector<std::int64_t>& numbers, std::size_t i, const GrpoAnswer& answer) {
  numbers.insert(numbers.end(), {static_cast<std::int64_t>(i), answer.sequence.prompt, answer.ended ? 1 : 0,
                                 std::ssize(answer.sequence.tokens)});
  numbers.insert(numbers.end(), answer.sequence.tokens.begin(), answer.sequence.tokens.end());
}

std::vector<std::int64_t> numbers_of(const std::map<std::size_t, GrpoAnswer>& answers) {
  std::vector<std::int64_t> numbers;
  for (const auto& [i, answer] : answers) append(numbers, i, answer);
  return numbers;
}

void read_answers(const std::vector<std::int64_t>& numbers, std::map<std::size_t, GrpoAnswer>& answers) {
  for (std::size_t at = 0; at + kHeader <= numbers.size();) {
    const std::int64_t size = numbers[at + 3];
    INGOT_CHECK(size >= 0 && size <= std::ssize(numbers) - static_cast<std::int64_t>(at + kHeader) &&
                    numbers[at + 1] >= 0 && numbers[at + 1] <= size,
                FormatError("the checkpoint's answers", static_cast<std::int64_t>(at), "tokens",
                            "are fewer than it says"));
    GrpoAnswer answer;
    answer.sequence.prompt = numbers[at + 1];
    answer.ended = numbers[at + 2] != 0;
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(at + kHeader);
    answer.sequence.tokens.assign(begin, begin + size);
    answers.try_emplace(static_cast<std::size_t>(numbers[at]), std::move(answer));
    at += kHeader + static_cast<std::size_t>(size);
  }
}

Tensor vector_of(const auto& values) { return Tensor::from(values, {std::ssize(values)}); }

}  // namespace

std::int64_t GrpoRollout::longest() const {
  return static_cast<std::int64_t>(*std::ranges::max_element(all.lengths));
}

Tensor GrpoRollout::old_rows(std::size_t first, std::size_t rows, std::int64_t width, Device device) const {
  if (steps == 0 || old_log_probs.empty()) return {};
  std::vector<float> values;
  values.reserve(rows * static_cast<std::size_t>(width));
  for (std::size_t r = first; r < first + rows; ++r) {
    const auto begin = old_log_probs.begin() + static_cast<std::ptrdiff_t>(r) * longest();
    values.insert(values.end(), begin, begin + width);
  }
  return to(Tensor::from(values, {static_cast<std::int64_t>(rows), width}), device);
}

void GrpoRollout::note_rows(std::size_t first, const Tensor& log_probs) {
  old_log_probs.resize(size() * static_cast<std::size_t>(longest()));
  const std::vector<float> values = to(log_probs.detach(), kCpu).to_vector<float>();
  const auto width = static_cast<std::ptrdiff_t>(log_probs.dim(1));
  for (std::ptrdiff_t r = 0; r < log_probs.dim(0); ++r)
    std::copy_n(values.begin() + r * width, width,
                old_log_probs.begin() + (static_cast<std::ptrdiff_t>(first) + r) * longest());
}

void GrpoRollout::share(dist::Communicator& ranks) {
  if (ranks.size() == 1) return;
  const std::vector<std::int64_t> own = numbers_of(answers);
  for (const std::string& bytes :
       ranks.all_gather({reinterpret_cast<const char*>(own.data()), own.size() * sizeof(std::int64_t)})) {
    std::vector<std::int64_t> numbers(bytes.size() / sizeof(std::int64_t));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    read_answers(numbers, answers);
  }
  ranks.all_reduce(old_log_probs);  // each rank has zeros for the others' answers
}

std::map<std::string, Tensor> GrpoRollout::state() const {
  std::vector<double> scores;
  for (const std::vector<double>& of_reward : all.scores)
    scores.insert(scores.end(), of_reward.begin(), of_reward.end());
  return {{"answers", vector_of(numbers_of(answers))},
          {"scores", vector_of(scores)},
          {"old_log_probs", vector_of(old_log_probs)},
          {"steps", vector_of(std::vector<std::int64_t>{steps})}};
}

GrpoRollout GrpoRollout::from_state(const std::map<std::string, Tensor>& state, const GrpoConfig& config) {
  const auto stored = [&state](const char* name) -> const Tensor& {
    const auto found = state.find(name);
    INGOT_CHECK(found != state.end(), FormatError("the checkpoint's answers", 0, name, "are missing"));
    return found->second;
  };
  GrpoRollout rollout;
  read_answers(stored("answers").to_vector<std::int64_t>(), rollout.answers);
  const std::size_t count = rollout.answers.size();
  const auto scores = stored("scores").to_vector<double>();
  rollout.old_log_probs = stored("old_log_probs").to_vector<float>();
  rollout.steps = stored("steps").to_vector<std::int64_t>().at(0);
  for (const auto& [i, answer] : rollout.answers) {
    rollout.all.lengths.push_back(static_cast<double>(answer.sequence.size() - answer.sequence.prompt));
    rollout.all.ended.push_back(answer.ended);
  }
  INGOT_CHECK(count > 0 && scores.size() == count * config.rewards.size() &&
                  rollout.old_log_probs.size() == count * static_cast<std::size_t>(rollout.longest()),
              FormatError("the checkpoint's answers", 0, "scores",
                          fmt::format("are {} for {} answers and {} rewards", scores.size(), count,
                                      config.rewards.size())));
  for (std::size_t r = 0; r < config.rewards.size(); ++r) {
    const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(r * count);
    rollout.all.scores.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  rollout.advantages = group_advantages(config, rollout.all.scores);
  return rollout;
}

}  // namespace ingot
