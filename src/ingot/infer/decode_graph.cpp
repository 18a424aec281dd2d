#include "ingot/infer/decode_graph.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/graph_cache.h"
#include "ingot/core/transfer.h"
#include "ingot/kernels/attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kMostTokens = 8;  // of a sequence: a prompt's chunks do not come again

bool waits(const LanguageModel& model) {
  const auto packed_experts = [](const auto& layer) {
    return layer->experts != nullptr && layer->experts->up_proj.is_quantized();
  };
  // Latents, and the largest heads, are wider than a GPU's kernels take: what stands in for them counts keys
  // on the host. States move in their memory as tokens come.
  return model.config.rope_scaling.depends_on_length() || model.config.is_latent() ||
         model.config.widest_head() > kernels::kWidestHead || model.config.is_recurrent() ||
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

std::vector<std::uint64_t> memories_of(std::span<const CacheSegment> segments) {
  std::vector<std::uint64_t> memories;
  memories.reserve(segments.size());
  for (const CacheSegment& segment : segments) memories.push_back(segment.cache->memory());
  return memories;
}

// Few different ones, so that soon all are recorded: a step of a few sequences more takes hardly longer.
std::size_t recorded_count(std::size_t sequences) {
  constexpr std::size_t kStep = 32;
  return sequences < kStep ? std::bit_ceil(sequences) : (sequences + kStep - 1) / kStep * kStep;
}

}  // namespace

struct DecodeGraph::Step {
  // `capacity` 0: launches are not shared.
  Step(const LanguageModel& model, std::span<const CacheSegment> segments, std::int64_t tokens_,
       std::int64_t capacity_)
      : tokens(tokens_),
        sequences(static_cast<std::int64_t>(segments.size())),
        capacity(capacity_),
        indices({2 * tokens_ + 2 * sequences}, DType::i32, model.device()) {
    if (capacity > 0)
      entries = std::make_unique<Upload>(cache_entries_shape(segments), DType::u8, model.device());
  }

  void send(std::span<const std::int32_t> ids, std::span<const CacheSegment> segments) {
    std::int32_t* begin = indices.host().data<std::int32_t>();
    std::int32_t* to = std::ranges::copy(ids, begin).out;
    std::fill(to, begin + tokens, 0);  // of fillers
    to = begin + tokens;
    for (const CacheSegment& segment : segments)
      for (std::int64_t i = 0; i < segment.tokens; ++i)
        *to++ = static_cast<std::int32_t>(segment.cache->length() + i);
    for (const CacheSegment& segment : segments) *to++ = static_cast<std::int32_t>(segment.cache->length());
    for (const CacheSegment& segment : segments)
      *to++ = static_cast<std::int32_t>(segment.cache->length() + segment.tokens);
    indices.send();
    if (entries == nullptr) return;
    std::vector<std::uint64_t> now = memories_of(segments);
    if (now == memories) return;
    write_cache_entries(segments, entries->host());
    entries->send();
    memories = std::move(now);
  }
  Tensor ids() const { return unsqueeze(narrow(indices.tensor(), 0, 0, tokens), 0); }
  CacheOffsets offsets() const {
    const Tensor& all = indices.tensor();
    return {.positions = unsqueeze(narrow(all, 0, tokens, tokens), 0),
            .starts = narrow(all, 0, 2 * tokens, sequences),
            .ends = narrow(all, 0, 2 * tokens + sequences, sequences),
            .entries = entries == nullptr ? Tensor() : entries->tensor(),
            .capacity = capacity};
  }

  std::int64_t tokens, sequences, capacity;
  Upload indices;  // the tokens, the position of each, and of each sequence what is cached before and after
  std::unique_ptr<Upload> entries;      // of the sequences' caches, for one launch for all of them
  std::vector<std::uint64_t> memories;  // of the entries sent last
  RopeTables rope;                      // which the recording reads
  Tensor logits;                        // where it leaves them
  std::unique_ptr<Download> arrived;
};

struct DecodeGraph::Recordings {
  explicit Recordings(Device device) : work(device) {}
  GraphCache work;
  std::map<std::string, std::unique_ptr<Step>> steps;
};

DecodeGraph::DecodeGraph(const LanguageModel& model)
    : model_(model),
      possible_(backend(model.device()).capabilities().graph_capture && !waits(model)),
      of_any_caches_(std::make_unique<Recordings>(model.device())),
      of_these_caches_(std::make_unique<Recordings>(model.device())) {}

DecodeGraph::~DecodeGraph() = default;

bool DecodeGraph::takes(std::span<const CacheSegment> segments) const {
  return possible_ && std::ranges::all_of(segments, [](const CacheSegment& segment) {
           return segment.unwanted == 0 && segment.tokens <= kMostTokens;
         });
}

std::vector<CacheSegment> DecodeGraph::filled_up(std::span<const CacheSegment> segments) {
  std::vector<CacheSegment> all(segments.begin(), segments.end());
  if (spare_ == nullptr)
    spare_ =
        std::make_unique<KvCache>(model_.config, kMostTokens, all.front().cache->dtype(), model_.device());
  all.resize(recorded_count(all.size()), {.cache = spare_.get(), .tokens = all.front().tokens});
  return all;
}

void DecodeGraph::repeat(Recordings& from, const std::string& key, std::span<const std::int32_t> tokens,
                         std::span<const CacheSegment> segments, std::int64_t capacity) {
  std::unique_ptr<Step>& step = from.steps[key];
  if (step == nullptr) {
    std::int64_t count = 0;
    for (const CacheSegment& segment : segments) count += segment.tokens;
    step = std::make_unique<Step>(model_, segments, count, capacity);
  }
  step->send(tokens, segments);
  from.work.run(key, [&] {
    const Tensor hidden = model_.hidden(step->ids(), segments, step->offsets());
    step->rope = model_.rope_tables(most_capacity(segments));
    step->logits = contiguous(to(model_.logits(reshape(hidden, {step->tokens, hidden.dim(2)})), DType::f32));
  });
  last_ = step.get();
}

Tensor DecodeGraph::run(std::span<const std::int32_t> tokens, std::span<const CacheSegment> segments) {
  const NoGrad no_grad;
  if (share_launches(segments)) {
    const std::vector<CacheSegment> all = filled_up(segments);
    // Of all capacities up to the next power of two.
    const auto capacity =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most_capacity(all))));
    repeat(*of_any_caches_, fmt::format("{} {} {}", all.size(), all.front().tokens, capacity), tokens, all,
           capacity);
  } else {
    std::vector<std::uint64_t> memories = memories_of(segments);
    if (memories != memories_) {  // recordings are of the very memory that they were made with
      of_these_caches_->work.clear();
      of_these_caches_->steps.clear();
      memories_ = std::move(memories);
    }
    repeat(*of_these_caches_, key_of(segments), tokens, segments, 0);
  }
  for (const CacheSegment& segment : segments) segment.cache->advance(segment.tokens);
  tokens_ = std::ssize(tokens);
  return narrow(last_->logits, 0, 0, tokens_);
}

Tensor DecodeGraph::on_host() {
  if (last_->arrived == nullptr)
    last_->arrived = std::make_unique<Download>(last_->logits.shape(), DType::f32, model_.device());
  last_->arrived->start(last_->logits);
  return narrow(last_->arrived->wait(), 0, 0, tokens_);
}

}  // namespace ingot::infer
