#include "ingot/train/language/grpo_objective.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/base/rng.h"
#include "ingot/base/shuffle.h"
#include "ingot/base/stopwatch.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/generation_config.h"
#include "ingot/nn/with_values.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::uint64_t kEvaluation = ~std::uint64_t{0};  // a step that no training reaches

std::string fingerprint_of_prompts(const TrainConfig& config, const std::vector<data::Prompt>& prompts) {
  std::string text = fmt::format("prompts {}", config.seed);
  for (const data::Prompt& prompt : prompts) text += "\n" + prompt.text + "\n" + prompt.record;
  return sha256_hex(text);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

GrpoObjective::GrpoObjective(const ObjectiveParts& parts)
    : config_(parts.config),
      grpo_(config_.objective.grpo),
      data_(parts.data),
      model_(parts.model),
      tokenizer_(parts.tokenizer),
      reference_(parts.reference),
      optimizer_(parts.optimizer),
      communicator_(parts.communicator),
      parallel_(make_data_parallel(config_, optimizer_, communicator_)) {
  for (const RewardConfig& reward : grpo_.rewards) rewards_.push_back(make_reward(reward));
  end_tokens_ = infer::find_end_tokens(infer::GenerationConfig::of_model(config_.model), tokenizer_);
  position_.fingerprint = fingerprint_of_prompts(config_, data_.prompts);
}

std::int64_t GrpoObjective::answers_of_step() const {
  return config_.per_device_train_batch_size * config_.gradient_accumulation_steps * communicator_.size();
}

GrpoObjective::Prompts GrpoObjective::next_prompts(data::DataState& position) const {
  Prompts prompts;
  while (std::ssize(prompts) < answers_of_step()) {
    if (position.position == data_.prompts.size()) {
      position.position = 0;
      ++position.epoch;
    }
    const Permutation order(data_.prompts.size(), config_.seed, position.epoch);
    const data::Prompt* prompt = &data_.prompts[order(position.position++)];
    prompts.insert(prompts.end(), static_cast<std::size_t>(grpo_.num_generations), prompt);
  }
  return prompts;
}

// By the engine, with the very weights that train.
GrpoObjective::Answers GrpoObjective::answer(const Prompts& prompts, std::size_t block, std::uint64_t stream,
                                             const StopCheck& stops) const {
  const WithValues with_values(config_.trains_in_halves());
  const LeasedBlocks all_layers(model_.lease, model_.layers.size());
  // An evaluation, which may have more prompts, keeps no more keys and values than a step does. The answers
  // to one prompt share its keys and values: it is read once.
  infer::Engine engine(
      model_, {.context = config_.sequence_len,
               .capture = config_.cuda_graphs,
               .max_running = config_.per_device_train_batch_size * config_.gradient_accumulation_steps,
               .prefix_cache = true});
  const auto is_end = [this](std::int32_t token) {
    return std::ranges::find(end_tokens_, token) != end_tokens_.end();
  };
  const auto ranks = static_cast<std::size_t>(communicator_.size()),
             rank = static_cast<std::size_t>(communicator_.rank());
  std::map<std::size_t, std::shared_ptr<infer::Sequence>> sequences;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (i / block % ranks != rank) continue;
    infer::Request request{.prompt = prompts[i]->tokens, .max_tokens = grpo_.max_completion_length};
    request.sampling = {.temperature = grpo_.temperature,
                        .top_k = grpo_.top_k,
                        .top_p = grpo_.top_p,
                        .min_p = grpo_.min_p,
                        .repetition_penalty = grpo_.repetition_penalty,
                        .seed = mix_stream(mix_stream(config_.seed, stream), i)};
    request.on_token = [is_end](std::int32_t token) { return !is_end(token); };  // which stays in the answer
    sequences[i] = engine.start(std::move(request));
  }
  while (communicator_.any(engine.step())) check_stop(stops);  // all ranks ask as often
  Answers answers;
  for (const auto& [i, sequence] : sequences) {
    const std::vector<std::int32_t>& written = sequence->result().tokens;
    GrpoAnswer answer{.sequence = {.tokens = prompts[i]->tokens, .prompt = std::ssize(prompts[i]->tokens)}};
    answer.sequence.tokens.insert(answer.sequence.tokens.end(), written.begin(), written.end());
    answer.ended = is_end(written.back());
    answer.text = tokenizer_.decode(std::span(written).first(written.size() - (answer.ended ? 1 : 0)));
    answers[i] = std::move(answer);
  }
  return answers;
}

std::vector<std::vector<double>> GrpoObjective::score_own(const Prompts& prompts, const Answers& answers,
                                                          const std::string& when) const {
  std::vector<AnswerToScore> to_score;
  std::vector<const data::Prompt*> asked;
  to_score.reserve(answers.size());
  asked.reserve(answers.size());
  for (const auto& [i, answer] : answers) {
    to_score.push_back({prompts[i]->text, answer.text, prompts[i]->record});
    asked.push_back(prompts[i]);
  }
  std::vector<std::vector<double>> scores(rewards_.size());
  for (std::size_t r = 0; r < rewards_.size() && !to_score.empty(); ++r) {
    try {
      scores[r] = rewards_[r]->score(to_score);
    } catch (const RewardFailure& failure) {
      const data::Prompt& prompt = *asked[failure.answer];
      throw StepRefused(fmt::format("{}: reward '{}' failed on an answer to the prompt of {}, {}: {}", when,
                                    grpo_.rewards[r].name, prompt.location.path, prompt.location.location,
                                    failure.what()));
    }
  }
  return scores;
}

// Every rank scores its own, and all tell each other; where one cannot, all refuse the step.
GrpoObjective::Scored GrpoObjective::score(const Prompts& prompts, const Answers& answers,
                                           const std::string& when) const {
  std::string problem;
  std::vector<double> own;  // number, length, whether it ended, scores
  try {
    const std::vector<std::vector<double>> scores = score_own(prompts, answers, when);
    std::size_t next = 0;
    for (const auto& [i, answer] : answers) {
      own.insert(own.end(), {static_cast<double>(i),
                             static_cast<double>(answer.sequence.size() - answer.sequence.prompt),
                             answer.ended ? 1.0 : 0.0});
      for (const std::vector<double>& of_reward : scores) own.push_back(of_reward[next]);
      ++next;
    }
  } catch (const StepRefused& refusal) {
    problem = refusal.what();
  }
  for (const std::string& told : communicator_.all_gather(problem))
    if (!told.empty()) throw StepRefused(told);
  Scored all{.scores = std::vector(rewards_.size(), std::vector<double>(prompts.size())),
             .lengths = std::vector<double>(prompts.size()),
             .ended = std::vector<bool>(prompts.size())};
  const std::size_t width = 3 + rewards_.size();
  for (const std::string& bytes :
       communicator_.all_gather({reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double)})) {
    std::vector<double> rows(bytes.size() / sizeof(double));
    std::memcpy(rows.data(), bytes.data(), bytes.size());
    for (std::size_t at = 0; at < rows.size(); at += width) {
      const auto i = static_cast<std::size_t>(rows[at]);
      all.lengths[i] = rows[at + 1];
      all.ended[i] = rows[at + 2] > 0;
      for (std::size_t r = 0; r < rewards_.size(); ++r) all.scores[r][i] = rows[at + 3 + r];
    }
  }
  return all;
}

void GrpoObjective::write_answers(std::int64_t step, const StopCheck& stops) {
  data::DataState position = position_;
  const Prompts prompts = next_prompts(position);
  const auto rows = static_cast<std::size_t>(config_.per_device_train_batch_size);
  const Stopwatch watch;
  GrpoRollout rollout{.answers = answer(prompts, rows, static_cast<std::uint64_t>(step), stops)};
  rollout_seconds_ = watch.seconds();
  rollout.all = score(prompts, rollout.answers, fmt::format("training step {}", step + 1));
  rollout.advantages = group_advantages(grpo_, rollout.all.scores);
  position_ = position;
  rollout_ = std::move(rollout);
}

StepWork GrpoObjective::gradients(std::int64_t step, const StopCheck& stops) {
  if (!rollout_.has_value() || rollout_->steps >= grpo_.num_iterations) write_answers(step, stops);
  const Tensor metrics = learn(*rollout_, step);
  if (keeps_answers() && rollout_->steps == 0) rollout_->share(communicator_);
  ++rollout_->steps;
  measure(rollout_->all, rollout_->advantages);
  const ClippedNorm clipped = optimizer_.measure_gradients();
  const NoGrad no_grad;
  const std::vector<Tensor> parts{metrics, reshape(clipped.norm, {1})};
  return {.metrics = concat(parts), .grad_scale = clipped.factor};
}

// Gradients of all micro-batches. Gives the loss, the divergence and the share that was clipped.
Tensor GrpoObjective::learn(GrpoRollout& rollout, std::int64_t step) {
  const Scored& all = rollout.all;
  const auto rows = static_cast<std::size_t>(config_.per_device_train_batch_size);
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const std::size_t micro_batches = all.lengths.size() / rows;
  const std::vector<bool> all_ranks(ranks, true);
  GrpoBatch whole{.micro_batches = static_cast<std::int64_t>(micro_batches)};
  for (std::size_t i = 0; i < all.lengths.size(); ++i)
    if (counts(all.ended[i])) whole.step_tokens += all.lengths[i];
  Tensor sums;
  for (std::size_t first = 0; first < micro_batches; first += ranks) {
    const bool last = first + ranks == micro_batches;
    const bool adds = parallel_ != nullptr && (last || config_.adds_every_round());
    const std::size_t own = first + static_cast<std::size_t>(communicator_.rank());
    const RandomScope random(config_.seed, mix_stream(static_cast<std::uint64_t>(step), own));
    const Learned learned = learn_batch(rollout, own * rows, whole);
    const GrpoLoss& result = learned.loss;
    if (keeps_answers() && rollout.steps == 0) rollout.note_rows(own * rows, learned.log_probs);
    if (adds) parallel_->begin(all_ranks, last);
    backward(result.loss);
    if (adds) parallel_->end();
    const NoGrad no_grad;
    const double share = 1 / static_cast<double>(micro_batches);
    const Tensor kl =
        result.kl.defined() ? result.kl * share : Tensor::zeros({}, DType::f32, model_.device());
    const std::vector<Tensor> values{reshape(result.loss.detach(), {1}), reshape(kl, {1}),
                                     reshape(result.clipped * share, {1})};
    sums = sums.defined() ? sums + concat(values) : concat(values);
  }
  if (parallel_ == nullptr) return sums;
  parallel_->finish();
  if (ranks > 1) parallel_->gather(sums);
  return sums;
}

// The loss of the answers from number `first` on. `part` has what is the step's.
GrpoObjective::Learned GrpoObjective::learn_batch(const GrpoRollout& rollout, std::size_t first,
                                                  GrpoBatch part) const {
  const auto rows = static_cast<std::size_t>(config_.per_device_train_batch_size);
  std::vector<const data::PromptedAnswer*> sequences;
  std::vector<float> advantage, counted;
  sequences.reserve(rows);
  advantage.reserve(rows);
  counted.reserve(rows);
  for (std::size_t i = first; i < first + rows; ++i) {
    const GrpoAnswer& answer = rollout.answers.at(i);
    sequences.push_back(&answer.sequence);
    advantage.push_back(static_cast<float>(rollout.advantages.advantages[i]));
    counted.push_back(counts(answer.ended) ? 1.0F : 0.0F);
  }
  const Shape column{static_cast<std::int64_t>(rows), 1};
  const AnswerBatch batch = make_answer_batch(sequences, 0, config_.sequence_len, model_.device());
  const auto log_probs = [&](const LanguageModel& model) {
    return answer_log_probs(model, hidden_of(model, batch), batch, grpo_.temperature);
  };
  part.mask = batch.mask * to(Tensor::from(counted, column), model_.device());
  part.advantages = to(Tensor::from(advantage, column), model_.device());
  if (reference_ != nullptr)
    reference_->run([&](const LanguageModel& reference) { part.reference = log_probs(reference); });
  part.old_log_probs = rollout.old_rows(first, rows, batch.longest, model_.device());
  part.log_probs = log_probs(model_);
  return {grpo_loss(grpo_, part), part.log_probs};
}

std::map<std::string, Tensor> GrpoObjective::state() const {
  const bool done = !rollout_.has_value() || rollout_->steps >= grpo_.num_iterations;
  return done ? std::map<std::string, Tensor>{} : rollout_->state();
}

void GrpoObjective::load_state(const std::map<std::string, Tensor>& state) {
  if (state.empty()) return;
  rollout_ = GrpoRollout::from_state(state, grpo_);
  if (static_cast<std::int64_t>(rollout_->size()) == answers_of_step()) return;
  log(LogLevel::warn, "ingot::train",
      fmt::format("the checkpoint's {} answers are not learned from again: a step has {} now",
                  rollout_->size(), answers_of_step()));
  rollout_.reset();
}

// trl's names, but for the time that writing the answers took.
void GrpoObjective::measure(const Scored& all, const GroupAdvantages& advantages) {
  NamedValues measured{{"reward", mean_of(advantages.rewards)},
                       {"reward_std", advantages.std_of_rewards},
                       {"frac_reward_zero_std", advantages.groups_alike}};
  for (std::size_t r = 0; r < all.scores.size(); ++r)
    measured.emplace_back(fmt::format("rewards/{}/mean", grpo_.rewards[r].name), mean_of(all.scores[r]));
  const auto truncated = static_cast<double>(std::ranges::count(all.ended, false));
  measured.emplace_back("completions/mean_length", mean_of(all.lengths));
  measured.emplace_back("completions/max_length", *std::ranges::max_element(all.lengths));
  measured.emplace_back("completions/clipped_ratio", truncated / static_cast<double>(all.ended.size()));
  if (rollout_seconds_ > 0) {  // else the answers are those of a step before
    measured.emplace_back("rollout_seconds", rollout_seconds_);
    measured.emplace_back("rollout_tokens_per_second",
                          std::reduce(all.lengths.begin(), all.lengths.end()) / rollout_seconds_);
    rollout_seconds_ = 0;
  }
  measured_.push_back(std::move(measured));
}

void GrpoObjective::read(std::span<const float> metrics, StepRecord& record) {
  record.loss = static_cast<double>(metrics[0]);
  record.grad_norm = static_cast<double>(metrics.back());
  record.values = std::move(measured_.front());
  measured_.pop_front();
  if (reference_ != nullptr) record.values.emplace_back("kl", static_cast<double>(metrics[1]));
  record.values.emplace_back("clip_ratio/region_mean", static_cast<double>(metrics[2]));
}

std::optional<double> GrpoObjective::evaluate(const StopCheck& stops) {
  if (data_.validation_prompts.empty()) return std::nullopt;
  const std::size_t most =
      config_.eval_batches == 0
          ? data_.validation_prompts.size()
          : static_cast<std::size_t>(config_.eval_batches * config_.per_device_train_batch_size);
  Prompts prompts;
  for (std::size_t i = 0; i < std::min(most, data_.validation_prompts.size()); ++i)
    prompts.push_back(&data_.validation_prompts[i]);
  const NoGrad no_grad;
  const auto scores = score(prompts, answer(prompts, 1, kEvaluation, stops), "evaluation").scores;
  double reward = 0;
  evaluated_.clear();
  for (std::size_t r = 0; r < scores.size(); ++r) {
    evaluated_.emplace_back(fmt::format("rewards/{}/mean", grpo_.rewards[r].name), mean_of(scores[r]));
    reward += grpo_.rewards[r].weight * mean_of(scores[r]);
  }
  evaluated_.insert(evaluated_.begin(), {"reward", reward});
  return -reward;
}

}  // namespace ingot
