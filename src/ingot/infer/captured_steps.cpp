#include "ingot/infer/captured_steps.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kMostTokens = 8;  // of a text: a prompt's pieces do not come again

bool waits(const LanguageModel& model) {
  const auto packed_experts = [](const auto& layer) {
    return layer->experts != nullptr && layer->experts->gate_proj.is_quantized();
  };
  // Latents are wider than a GPU's kernels take: what stands in for them counts keys on the host.
  return model.config.rope_scaling.depends_on_length() || model.config.is_latent() ||
         std::ranges::any_of(model.layers, packed_experts);
}

std::int64_t most_capacity(std::span<const CacheSegment> segments) {
  std::int64_t most = 0;
  for (const CacheSegment& segment : segments) most = std::max(most, segment.cache->capacity());
  return most;
}

std::string key_of(std::span<const CacheSegment> segments) {
  std::string key;
  for (const CacheSegment& segment : segments) key += fmt::format("{} ", segment.tokens);
  return key;
}

}  // namespace

struct CapturedSteps::Step {
  Step(const LanguageModel& model, std::span<const CacheSegment> segments, std::int64_t tokens_)
      : tokens(tokens_),
        sequences(static_cast<std::int64_t>(segments.size())),
        indices({2 * tokens_ + 2 * sequences}, DType::i32, model.device()),
        entries(cache_entries(segments)),
        rope(model.rope_tables(most_capacity(segments))),
        arrived({tokens_, model.config.vocab_size}, DType::f32, model.device()) {}

  void send(std::span<const std::int32_t> ids, std::span<const CacheSegment> segments) {
    std::int32_t* to = std::ranges::copy(ids, indices.host().data<std::int32_t>()).out;
    for (const CacheSegment& segment : segments)
      for (std::int64_t i = 0; i < segment.tokens; ++i)
        *to++ = static_cast<std::int32_t>(segment.cache->length() + i);
    for (const CacheSegment& segment : segments) *to++ = static_cast<std::int32_t>(segment.cache->length());
    for (const CacheSegment& segment : segments)
      *to++ = static_cast<std::int32_t>(segment.cache->length() + segment.tokens);
    indices.send();
  }
  Tensor ids() const { return unsqueeze(narrow(indices.tensor(), 0, 0, tokens), 0); }
  CachePlaces places() const {
    const Tensor& all = indices.tensor();
    return {.positions = unsqueeze(narrow(all, 0, tokens, tokens), 0),
            .starts = narrow(all, 0, 2 * tokens, sequences),
            .ends = narrow(all, 0, 2 * tokens + sequences, sequences),
            .entries = entries};
  }

  std::int64_t tokens, sequences;
  Upload indices;   // the tokens, the position of each, and of each text what is cached before and after
  Tensor entries;   // of the texts' caches, for one launch for all of them
  RopeTables rope;  // which the recording reads
  Tensor logits;    // where it leaves them
  Download arrived;
};

CapturedSteps::CapturedSteps(const LanguageModel& model)
    : model_(model),
      possible_(backend(model.device()).capabilities().graph_capture && !waits(model)),
      work_(model.device()) {}

CapturedSteps::~CapturedSteps() = default;

bool CapturedSteps::takes(std::span<const CacheSegment> segments) const {
  return possible_ && std::ranges::all_of(segments, [](const CacheSegment& segment) {
           return segment.unwanted == 0 && segment.tokens <= kMostTokens;
         });
}

// Recordings are of the very memory that they were made with.
CapturedSteps::Step& CapturedSteps::step_of(const std::string& key, std::span<const CacheSegment> segments,
                                            std::int64_t tokens) {
  std::vector<std::uint64_t> memories;
  for (const CacheSegment& segment : segments) memories.push_back(segment.cache->memory());
  if (memories != memories_) {
    work_.clear();
    steps_.clear();
    memories_ = std::move(memories);
  }
  std::unique_ptr<Step>& step = steps_[key];
  if (step == nullptr) step = std::make_unique<Step>(model_, segments, tokens);
  return *step;
}

const Tensor& CapturedSteps::run(std::span<const std::int32_t> tokens,
                                 std::span<const CacheSegment> segments) {
  const NoGrad no_grad;
  const std::string key = key_of(segments);
  Step& step = step_of(key, segments, static_cast<std::int64_t>(tokens.size()));
  step.send(tokens, segments);
  work_.run(key, [&] {
    const Tensor hidden = model_.hidden(step.ids(), segments, step.places());
    step.logits = contiguous(to(model_.logits(reshape(hidden, {step.tokens, hidden.dim(2)})), DType::f32));
  });
  for (const CacheSegment& segment : segments) segment.cache->advance(segment.tokens);
  last_ = &step;
  return step.logits;
}

const Tensor& CapturedSteps::on_host() {
  last_->arrived.start(last_->logits);
  return last_->arrived.wait();
}

}  // namespace ingot::infer
