#include "ingot/train/language/preference_objective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/rng.h"
#include "ingot/base/shuffle.h"
#include "ingot/nn/with_values.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

std::string fingerprint_of(const TrainConfig& config, const data::DocumentSet& documents) {
  std::string text = fmt::format("preferences {} {} {}", documents.store->key(), config.seed,
                                 static_cast<int>(*config.samples.preferences));
  for (const data::TokenRange& range : documents.documents) text += fmt::format(" {}", range.begin);
  return sha256_hex(text);
}

// Of all batches, of which ranks take turns, in their order; the first rank has one at least.
std::vector<double> weighted_sums(dist::Communicator& communicator, std::vector<std::vector<float>> values,
                                  std::span<const double> counts) {
  auto width = static_cast<float>(values.front().size());
  communicator.broadcast(std::as_writable_bytes(std::span(&width, 1)), 0);
  std::vector<double> sums(static_cast<std::size_t>(width));
  std::vector<float> all;
  for (std::vector<float>& batch : values) {
    batch.resize(sums.size());
    all.insert(all.end(), batch.begin(), batch.end());
  }
  communicator.all_reduce(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    sums[i % sums.size()] += static_cast<double>(all[i]) * counts[i / sums.size()];
  return sums;
}

// [loss, metrics...] as one vector.
Tensor as_vector(const PreferenceLoss& result) {
  std::vector<Tensor> values{reshape(result.loss.detach(), {1})};
  for (const auto& [name, value] : result.metrics) values.push_back(reshape(value, {1}));
  return concat(values);
}

ReferenceRun reference_run(const ReferenceModel* reference) {
  if (reference == nullptr) return {};
  return [reference](FunctionRef<void(const LanguageModel&)> f) { reference->run(f); };
}

}  // namespace

PreferenceObjective::PreferenceObjective(const ObjectiveParts& parts)
    : config_(parts.config),
      data_(parts.data),
      model_(parts.model),
      optimizer_(parts.optimizer),
      communicator_(parts.communicator),
      pass_(config_, model_, reference_run(parts.reference)),
      parallel_(make_data_parallel(config_, optimizer_, communicator_)) {
  INGOT_CHECK(config_.objective.kind != ObjectiveKind::kto || config_.per_device_train_batch_size > 1,
              InvalidConfig("per_device_train_batch_size",
                            "is 1, but KTO compares with answers to the other prompts of a batch; set 2 or "
                            "more"));
  position_.fingerprint = fingerprint_of(config_, data_.train_documents);
}

PreferenceObjective::Rows PreferenceObjective::next_rows() {
  const auto& documents = data_.train_documents.documents;
  Rows rows;
  while (std::ssize(rows) < config_.per_device_train_batch_size) {
    if (position_.position == documents.size()) {
      position_.position = 0;
      ++position_.epoch;
    }
    const Permutation order(documents.size(), config_.seed, position_.epoch);
    rows.push_back(data::read_preference(*data_.train_documents.store, documents[order(position_.position++)],
                                         *data_.preferences));
  }
  return rows;
}

bool PreferenceObjective::is_own(std::int64_t micro_batch) const {
  return micro_batch % communicator_.size() == communicator_.rank();
}

// Of a round, in which every rank has a micro-batch.
PreferenceObjective::Rows PreferenceObjective::own_rows() {
  Rows own;
  for (std::int64_t i = 0; i < communicator_.size(); ++i) {
    Rows rows = next_rows();
    if (is_own(i)) own = std::move(rows);
  }
  return own;
}

void PreferenceObjective::learn_names(const PreferenceLoss& result) {
  names_.clear();
  for (const auto& [name, value] : result.metrics) names_.push_back(name);
}

StepWork PreferenceObjective::gradients(std::int64_t step, const StopCheck& /*stops*/) {
  const std::int64_t rounds = config_.gradient_accumulation_steps, ranks = communicator_.size();
  const auto count = static_cast<double>(rounds * ranks);
  const std::vector<bool> all_ranks(static_cast<std::size_t>(ranks), true);
  Tensor metrics;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Rows rows = own_rows();
    const auto micro_batch = static_cast<std::uint64_t>(round * ranks + communicator_.rank());
    const RandomScope random(config_.seed, mix_stream(static_cast<std::uint64_t>(step), micro_batch));
    const PreferenceLoss result = pass_.loss(rows);
    const bool last = round + 1 == rounds;
    const bool adds = parallel_ != nullptr && (last || config_.adds_every_round());
    if (adds) parallel_->begin(all_ranks, last);
    backward(result.loss / count);
    if (adds) parallel_->end();
    const NoGrad no_grad;
    const Tensor part = as_vector(result) / count;
    metrics = metrics.defined() ? metrics + part : part;
    learn_names(result);
  }
  if (parallel_ != nullptr) {
    parallel_->finish();
    if (ranks > 1) parallel_->gather(metrics);
  }
  const ClippedNorm clipped = optimizer_.measure_gradients();
  const NoGrad no_grad;
  const std::vector<Tensor> all{metrics, reshape(clipped.norm, {1})};
  return {.metrics = concat(all), .grad_scale = clipped.factor};
}

// Those of a verdict are sums over a batch and counts: means of them are as good.
NamedValues PreferenceObjective::metrics_of(std::span<const double> means) const {
  NamedValues metrics;
  for (std::size_t i = 0; i < names_.size(); ++i) metrics.emplace_back(names_[i], means[i]);
  if (*data_.preferences == data::PreferenceKind::pair) return metrics;
  const auto take = [&](std::string_view name) -> double& {
    return std::ranges::find(metrics, name, [](const auto& m) { return std::string_view(m.first); })->second;
  };
  for (const std::string side : {"chosen", "rejected"}) {
    const double answers = take("count/" + side);
    for (const std::string what : {"rewards/", "logps/"})
      take(what + side) = answers > 0 ? take(what + side) / answers : std::nan("");
  }
  const double margin = take("rewards/chosen") - take("rewards/rejected");
  metrics.emplace_back("rewards/margins", margin);
  std::erase_if(metrics, [](const auto& m) { return m.first.starts_with("count/") || std::isnan(m.second); });
  std::rotate(metrics.begin(), metrics.end() - 1, metrics.end());
  return metrics;
}

void PreferenceObjective::read(std::span<const float> metrics, StepRecord& record) {
  record.loss = static_cast<double>(metrics.front());
  record.grad_norm = static_cast<double>(metrics.back());
  const std::vector<double> means(metrics.begin() + 1, metrics.end() - 1);
  record.values = metrics_of(means);
}

StepSize PreferenceObjective::step_size() const {
  const data::DocumentSet& train = data_.train_documents;
  const double mean = static_cast<double>(train.tokens()) / static_cast<double>(train.documents.size());
  return {.tokens = mean * static_cast<double>(config_.per_device_train_batch_size *
                                               config_.gradient_accumulation_steps * communicator_.size())};
}

// The last batches, of which every rank does one. Ranks that share out weights or experts have to run
// the same passes: one without a batch runs another's for nothing.
void PreferenceObjective::evaluate_round(std::vector<Rows>& round, std::vector<std::vector<float>>& values) {
  const auto rank = static_cast<std::size_t>(communicator_.rank());
  const bool has_own = rank < round.size();
  if (has_own || config_.runs_passes_together()) {
    const PreferenceLoss result = pass_.loss(has_own ? round[rank] : round.back());
    learn_names(result);
    if (has_own) values[values.size() - round.size() + rank] = to(as_vector(result), kCpu).to_vector<float>();
  }
  round.clear();
}

std::optional<double> PreferenceObjective::evaluate(const StopCheck& stops) {
  const auto& documents = data_.validation_documents.documents;
  if (documents.empty()) return std::nullopt;
  const NoGrad no_grad;
  const WithValues with_values(config_.adapter.quantizes_base());
  std::vector<std::vector<float>> values;  // by batch, of this rank's
  std::vector<double> counts;
  std::vector<Rows> round;
  std::size_t rows_done = 0;
  while (rows_done < documents.size() &&
         (config_.eval_batches == 0 || std::ssize(counts) < config_.eval_batches)) {
    check_stop(stops);
    Rows rows;
    for (; rows_done < documents.size() && std::ssize(rows) < config_.per_device_train_batch_size;
         ++rows_done)
      rows.push_back(
          data::read_preference(*data_.validation_documents.store, documents[rows_done], *data_.preferences));
    counts.push_back(static_cast<double>(rows.size()));
    values.emplace_back();
    round.push_back(std::move(rows));
    if (std::ssize(round) == communicator_.size()) evaluate_round(round, values);
  }
  if (!round.empty()) evaluate_round(round, values);
  const std::vector<double> sums = weighted_sums(communicator_, std::move(values), counts);
  std::vector<double> means;
  means.reserve(sums.size());
  for (const double sum : sums) means.push_back(sum / static_cast<double>(rows_done));
  evaluated_ = names_.empty() ? NamedValues{} : metrics_of(std::span(means).subspan(1));
  return means.front();
}

}  // namespace ingot
