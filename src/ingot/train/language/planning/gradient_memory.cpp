#include "ingot/train/language/planning/gradient_memory.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <numeric>
#include <string_view>

#include "ingot/dist/communicator.h"

namespace ingot {
namespace {

using Bucket = GradientMemory::Bucket;
using Lie = GradientMemory::Lie;

// While a bucket is put together, one may be sent and one wait for that (DataParallel).
constexpr std::size_t kOnTheirWay = 2;

std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  std::int64_t layer = -1;
  if (name.starts_with(kLayers))
    std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

// Matrices of one input lie one behind the other, and stay so.
bool joins(std::string_view before, std::string_view name) {
  const auto is = [](std::string_view text, std::string_view module) {
    return text.find(module) != std::string_view::npos;
  };
  return (is(before, ".q_proj.") && is(name, ".k_proj.")) ||
         (is(before, ".k_proj.") && is(name, ".v_proj.")) ||
         (is(before, ".mlp.gate_proj.") && is(name, ".mlp.up_proj."));
}

bool is_shared_expert(const TrainConfig& config, const PlannedGradient& gradient) {
  return config.shares_experts() && gradient.name.find(".experts.") != std::string::npos;
}

// As GradBuckets lays them out, in the order in which a backward pass fills them.
std::vector<Bucket> buckets_of(const TrainConfig& config, const std::vector<PlannedGradient>& gradients) {
  std::vector<Bucket> buckets;
  const PlannedGradient* last = nullptr;
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const PlannedGradient& gradient = gradients[i];
    if (is_shared_expert(config, gradient)) continue;
    const bool apart = config.zero_stage == 3 && !config.adapter.enabled;
    const std::int64_t of = apart && gradient.is_matrix ? layer_of(gradient.name) : -1;
    const auto opens = [&] {
      if (last == nullptr || of != buckets.back().layer) return true;
      return buckets.back().bytes >= config.bucket_bytes() && !(apart && joins(gradient.name, last->name));
    };
    if (opens()) buckets.push_back({.gradients = {}, .layer = of});
    buckets.back().bytes += gradient.bytes;
    buckets.back().gradients.push_back(static_cast<std::int32_t>(i));
    last = &gradient;
  }
  return buckets;
}

// The most bytes of buckets that are on their way while another is put together.
std::size_t most_on_their_way(const std::vector<Bucket>& buckets) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < buckets.size(); ++i) {
    std::size_t bytes = 0;
    for (std::size_t back = 1; back <= std::min(i, kOnTheirWay); ++back) bytes += buckets[i - back].bytes;
    most = std::max(most, bytes);
  }
  return most;
}

// Which buckets are on their way to other ranks, from moment to moment. One has arrived when the next is
// ready; where links are slower, see GradientMemory::waiting. At stage 3 weights go the same way, and as many
// are on theirs as may be.
class SentBuckets {
 public:
  SentBuckets(const PassMemory& pass, const GradientMemory& gradients)
      : buckets_(gradients.buckets),
        late_(gradients.shares_weights ? kOnTheirWay : 0),
        missing_(buckets_.size()),
        of_(pass.gradients.size(), -1) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      missing_[i] = buckets_[i].gradients.size();
      for (const std::int32_t gradient : buckets_[i].gradients)
        of_[static_cast<std::size_t>(gradient)] = static_cast<std::int64_t>(i);
    }
  }

  /// Calls take(bucket) for each that is ready now, and is not taken yet.
  template <class F>
  void ready(std::int32_t gradient, const F& take) {
    const std::int64_t bucket = gradient < 0 ? -1 : of_[static_cast<std::size_t>(gradient)];
    if (bucket < 0) return;
    --missing_[static_cast<std::size_t>(bucket)];
    for (; next_ < buckets_.size() && missing_[next_] == 0; ++next_) {
      if (sent_.size() > late_) sent_.pop_front();
      take(buckets_[next_]);
      sent_.push_back(buckets_[next_].bytes);
      taken_ += sent_.back();
    }
  }
  /// Bytes of the gradients that were put into buckets.
  std::size_t taken() const { return taken_; }
  std::size_t sent() const { return std::accumulate(sent_.begin(), sent_.end(), std::size_t{0}); }
  /// Bytes that the sum of the first of them receives.
  std::size_t received() const { return sent_.empty() ? 0 : std::min(sent_.front(), dist::kMessageBytes); }

 private:
  const std::vector<Bucket>& buckets_;
  std::size_t late_;
  std::vector<std::size_t> missing_;
  std::vector<std::int64_t> of_;
  std::size_t next_ = 0, taken_ = 0;
  std::deque<std::size_t> sent_;
};

// Keeps the largest.
class Largest {
 public:
  Largest(std::size_t kept, std::size_t layer_bytes) : kept_(kept), layer_bytes_(layer_bytes) {}
  /// `pass`: bytes of activations; `before`: of these at the moment's begin.
  void see(std::size_t gradients, std::size_t pass, std::size_t before, std::int64_t layers) {
    const std::size_t activations = std::min({kept_, pass, before});
    const StepPeak here{.gradients = gradients,
                        .activations = activations,
                        .transients = pass - activations,
                        .layers = layers};
    if (here.total(layer_bytes_) > peak.total(layer_bytes_)) peak = here;
  }
  StepPeak peak;

 private:
  std::size_t kept_, layer_bytes_;
};

std::size_t less(std::size_t bytes, std::size_t by) { return bytes - std::min(bytes, by); }

void see_standing(Largest& largest, const PassMemory& pass, const GradientMemory& gradients) {
  SentBuckets way(pass, gradients);
  std::size_t before = 0;
  for (const PassMoment& moment : pass.adding) {
    largest.see(gradients.between + way.received(), moment.most, before, moment.layers);
    before = moment.left;
    way.ready(moment.gradient, [](const Bucket&) {});
  }
}

// Gradients that come as they are made, and may go with their buckets.
void see_made(Largest& largest, const PassMemory& pass, const GradientMemory& gradients) {
  SentBuckets way(pass, gradients);
  std::size_t before = 0, experts = 0;
  for (const PassMoment& moment : pass.first) {
    const std::size_t made = std::min(moment.gradients, moment.most), gone = way.taken() + experts;
    const auto beside = [&] { return gradients.between + way.sent() + way.received(); };
    largest.see(beside() + less(made, gone), less(moment.most, made), before, moment.layers);
    way.ready(moment.gradient, [&](const Bucket& bucket) {  // a bucket beside what it is made of
      const std::size_t there = std::min(moment.gradients, moment.left);
      largest.see(beside() + bucket.bytes + less(there, way.taken() + experts), moment.left - there,
                  moment.left - there, moment.layers);
    });
    before = less(moment.left, moment.gradients);
    if (moment.gradient < 0 || !gradients.experts_stand) continue;
    const PlannedGradient& made_now = pass.gradients[static_cast<std::size_t>(moment.gradient)];
    if (made_now.name.find(".experts.") != std::string::npos) experts += made_now.bytes;
  }
}

}  // namespace

GradientMemory gradient_memory(const TrainConfig& config, const PassMemory& pass, std::size_t own,
                               std::size_t experts, std::size_t ranks, bool on_gpu) {
  const bool rounds = config.gradient_accumulation_steps > 1, sums = config.adds_every_round() && rounds;
  GradientMemory memory{.all = own + experts};
  if (ranks == 1) {
    const bool recorded = on_gpu && config.cuda_graphs;  // every recording writes to the same memory
    if (!rounds && !recorded) return memory;
    memory.lie = Lie::standing;
    memory.between = sums ? 2 * own : own;  // the sums of micro-batches lie beside the gradients of each
    memory.stays = sums;
    return memory;
  }
  const bool passing = config.zero_stage >= 2;
  const std::size_t part = config.zero_stage > 0 ? own / ranks : own;
  memory.lie = passing ? Lie::passing : Lie::standing;
  memory.stays = true;
  memory.between = passing ? part : own + (sums ? part : 0);
  memory.buckets = buckets_of(config, pass.gradients);
  memory.gathers_values = config.zero_stage > 0;
  memory.shares_weights = config.zero_stage == 3;
  if (passing && !memory.shares_weights) memory.waiting = most_on_their_way(memory.buckets);
  if (!config.shares_experts()) return memory;
  memory.experts_stand = rounds;
  if (!passing || rounds) memory.between += experts;
  return memory;
}

std::size_t most_of(const std::vector<PassMoment>& pass) {
  std::size_t most = 0;
  for (const PassMoment& moment : pass) most = std::max(most, moment.most);
  return most;
}

StepPeak peak_of_step(const PassMemory& pass, const GradientMemory& gradients, std::size_t layer_bytes,
                      std::size_t extra, std::size_t step) {
  Largest largest(pass.kept, layer_bytes);
  if (gradients.lie == Lie::standing || gradients.lie == Lie::elsewhere)
    see_standing(largest, pass, gradients);
  else
    see_made(largest, pass, gradients);
  largest.peak.transients += extra;
  std::size_t gathered = 0;
  for (const Bucket& bucket : gradients.buckets)
    if (gradients.gathers_values && bucket.layer < 0) gathered = std::max(gathered, bucket.bytes);
  const std::size_t there = gradients.lie == Lie::as_made ? gradients.all : gradients.between;
  largest.see(there, std::max(step, gathered), 0, 0);
  StepPeak& peak = largest.peak;
  peak.moving = std::max({most_of(pass.adding) + extra, step, gathered, peak.activations + peak.transients});
  return peak;
}

}  // namespace ingot
