#include "ingot/infer/perplexity.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/host_memory.h"
#include "ingot/infer/logit_passes.h"
#include "ingot/models/language/context.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kHeadRows = 128;  // logits at once: 64 MB for a vocabulary of 128,000

// The losses of `targets` from the hidden states before each of them, [targets, hidden].
double score(const LanguageModel& model, const Tensor& states, std::span<const std::int32_t> targets) {
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  const auto count = static_cast<std::int64_t>(targets.size());
  std::vector<double> losses(targets.size());
  double device_sum = 0;
  for (std::int64_t at = 0; at < count; at += kHeadRows) {
    const std::int64_t rows = std::min(kHeadRows, count - at);
    const Tensor logits = to(model.logits(narrow(states, 0, at, rows)), DType::f32);
    if (!has_host_memory(logits.device())) {  // one number is on its way sooner than all logits
      const auto wanted = targets.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows));
      const Tensor there = Tensor::from(wanted, {rows}, logits.device());
      device_sum += to(cross_entropy(logits, there, {.reduction = Reduction::sum}), kCpu).item();
      continue;
    }
    parallel_for(rows, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::span row(logits.data<float>() + static_cast<std::size_t>(i) * vocab, vocab);
        losses[static_cast<std::size_t>(at + i)] = token_loss(row, targets[static_cast<std::size_t>(at + i)]);
      }
    });
  }
  double sum = device_sum;
  for (const double loss : losses) sum += loss;
  return sum;
}

// Hidden states [tokens, hidden] of a window, chunk by chunk through a cache, as generation would have them.
Tensor window_states(const LanguageModel& model, std::span<const std::int32_t> tokens,
                     const EngineOptions& engine) {
  KvCache cache(model.config, static_cast<std::int64_t>(tokens.size()),
                engine.kv_cache.value_or(default_kv_cache(model)), model.device());
  std::vector<Tensor> pieces;
  for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(engine.chunk)) {
    const auto piece =
        tokens.subspan(at, std::min(tokens.size() - at, static_cast<std::size_t>(engine.chunk)));
    const CacheSegment segment{&cache, static_cast<std::int64_t>(piece.size())};
    const Tensor states =
        model.hidden(Tensor::from(piece, {1, segment.tokens}, model.device()), std::span(&segment, 1));
    pieces.push_back(reshape(states, {segment.tokens, states.dim(2)}));
  }
  return pieces.size() == 1 ? pieces.front() : concat(pieces);
}

void check(const LanguageModel& model, std::span<const std::int32_t> tokens, const PerplexityOptions& o) {
  const std::int64_t context = context_length(model.config);
  INGOT_CHECK(
      o.window >= 2 && o.window <= context,
      InvalidConfig("window", fmt::format("must be between 2 and the model's context of {} tokens, got {}",
                                          context, o.window)));
  INGOT_CHECK(o.step() >= 1 && o.step() < o.window,
              InvalidConfig("stride", fmt::format("must be at least 1 and less than the window of {}, got {}",
                                                  o.window, o.stride)));
  INGOT_CHECK(tokens.size() >= 2, DimensionMismatch(fmt::format(
                                      "perplexity: the text has {} tokens; two are needed", tokens.size())));
  for (const std::int32_t id : tokens) {
    INGOT_CHECK(id >= 0 && id < model.config.vocab_size,
                DimensionMismatch(fmt::format("perplexity: token id {} is outside the vocabulary of {}", id,
                                              model.config.vocab_size)));
  }
}

}  // namespace

double token_loss(std::span<const float> row, std::int32_t target) {
  const float top = largest_logit(row);
  return std::log(sum_exp_weights(row, top)) + top - row[static_cast<std::size_t>(target)];
}

double Perplexity::perplexity() const {
  return std::exp(negative_log_likelihood / static_cast<double>(tokens));
}

double Perplexity::bits_per_byte(std::int64_t bytes) const {
  return negative_log_likelihood / std::log(2.0) / static_cast<double>(bytes);
}

void visit_windows(const LanguageModel& model, std::span<const std::int32_t> tokens,
                   const EngineOptions& engine, const PerplexityOptions& options,
                   FunctionRef<void(const Tensor&, std::span<const std::int32_t>)> visit) {
  engine.validate(model.config);
  check(model, tokens, options);
  const NoGrad no_grad;
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::int64_t scored = 1;  // the first token has nothing before it
  for (std::int64_t begin = 0; scored < count; begin += options.step()) {
    const std::int64_t end = std::min(begin + options.window, count);
    const auto window =
        tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const Tensor states = window_states(model, window.first(window.size() - 1), engine);
    const std::int64_t first = scored - begin;  // in the window
    visit(narrow(states, 0, first - 1, end - scored), window.subspan(static_cast<std::size_t>(first)));
    scored = end;
  }
}

Perplexity measure_perplexity(const LanguageModel& model, std::span<const std::int32_t> tokens,
                              const EngineOptions& engine, const PerplexityOptions& options,
                              const std::function<void(std::int64_t)>& on_progress) {
  Perplexity result;
  visit_windows(model, tokens, engine, options,
                [&](const Tensor& states, std::span<const std::int32_t> targets) {
                  result.negative_log_likelihood += score(model, states, targets);
                  result.tokens += static_cast<std::int64_t>(targets.size());
                  if (on_progress) on_progress(result.tokens);
                });
  return result;
}

TextPerplexity measure_perplexity(const Session& session, std::string_view text, std::int64_t limit,
                                  const PerplexityOptions& options,
                                  const std::function<void(std::int64_t, std::int64_t)>& on_progress) {
  std::vector<std::int32_t> ids = session.tokenizer().encode(text);
  TextPerplexity found{
      .bytes = static_cast<std::int64_t>(text.size()),
      .kv_cache = session.engine_options().kv_cache.value_or(default_kv_cache(session.model()))};
  if (limit > 0 && limit < static_cast<std::int64_t>(ids.size())) {
    ids.resize(static_cast<std::size_t>(limit));
    found.bytes = static_cast<std::int64_t>(session.tokenizer().decode_bytes(ids).size());
  }
  const auto all = static_cast<std::int64_t>(ids.size()) - 1;
  if (on_progress && all > 0) on_progress(0, all);
  found.result =
      measure_perplexity(session.model(), ids, session.engine_options(), options, [&](std::int64_t done) {
        if (on_progress) on_progress(done, all);
      });
  return found;
}

}  // namespace ingot::infer
