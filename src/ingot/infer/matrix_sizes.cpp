#include "ingot/infer/matrix_sizes.h"

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/dry_run.h"
#include "ingot/kernels/packed.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/visit.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kTokens = 2;  // of the dry run, whose last one's logits are wanted

void add(MatrixSizes& to, const quant::PackedPtr& packed, const Parameter& dense, double share) {
  const double bytes = static_cast<double>(packed != nullptr ? packed->nbytes() : dense.value.nbytes());
  const auto elements =
      static_cast<double>(packed != nullptr ? packed->rows * packed->cols : dense.value.numel());
  to.bytes += share * bytes;
  to.elements += share * elements;
  if (packed != nullptr && !kernels::is_weight_only(packed->format)) to.int8 += share * elements;
  if (packed != nullptr && kernels::is_row_scaled(packed->format)) to.int8_rows += share * elements;
}

void add(MatrixSizes& to, const ExpertLinear& experts, double share) {
  if (!experts.is_quantized()) add(to, nullptr, experts.dense, share);
  for (const quant::PackedPtr& expert : experts.packed) add(to, expert, {}, share);
}

// Of a layer; null where it has none, or none with a gate.
std::array<const ExpertLinear*, 3> experts_of(const DecoderLayer& layer) {
  if (layer.experts == nullptr) return {};
  const MoeMlp& e = *layer.experts;
  return {e.gate_proj.get(), &e.up_proj, &e.down_proj};
}

// The model's own weights by those of a twin without memory.
struct Twins {
  std::map<const LinearWeight*, const LinearWeight*> linear;
  std::map<const ExpertLinear*, const ExpertLinear*> experts;

  Twins(LanguageModel& twin, LanguageModel& model) {
    const auto theirs = named_weights(twin), ours = named_weights(model);
    INGOT_ASSERT(theirs.size() == ours.size() && twin.layers.size() == model.layers.size());
    for (std::size_t i = 0; i < ours.size(); ++i) linear[theirs[i].second] = ours[i].second;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const auto there = experts_of(*twin.layers[i]), here = experts_of(*model.layers[i]);
      for (std::size_t k = 0; k < here.size(); ++k) experts[there[k]] = here[k];
    }
  }
};

// Of a pass of two tokens in which the last one's logits are wanted: what one row passes is the head's. Each
// matrix counts once, as the tokens of a step share what is read of it.
MatrixSizes sizes(LanguageModel& model, bool active) {
  const kernels::DryRun run(kernels::DeviceProfile::of(kCpu));
  MetaSource shapes(DType::f32);
  LanguageModel twin(model.config, shapes);
  const Twins twins(twin, model);
  std::map<const LinearWeight*, std::int64_t> linear;
  std::map<const ExpertLinear*, std::int64_t> experts;
  {
    const WeightObserver observer([&](const WeightUse& use) {
      if (use.by_index) return;
      if (use.linear != nullptr) linear[twins.linear.at(use.linear)] = use.rows;
      if (use.experts != nullptr) experts[twins.experts.at(use.experts)] = use.rows;
    });
    const NoGrad no_grad;
    KvCache cache(model.config, kTokens, DType::f32, kMeta);
    const std::vector<CacheSegment> segments{{.cache = &cache, .tokens = kTokens, .unwanted = kTokens - 1}};
    twin.logits(twin.hidden(Tensor::empty({1, kTokens}, DType::i32, kMeta), segments));
  }
  MatrixSizes body, head;
  for (const auto& [weight, rows] : linear) add(rows == 1 ? head : body, weight->packed, weight->dense, 1);
  for (const auto& [stack, rows] : experts) {
    const bool last = rows == model.config.num_experts_per_tok;  // of one token
    const double share =
        static_cast<double>(model.config.num_experts_per_tok) / static_cast<double>(model.config.num_experts);
    add(last ? head : body, *stack, active ? share : 1);
  }
  body.head = head.elements;
  body.bytes += head.bytes;
  body.elements += head.elements;
  return body;
}

}  // namespace

MatrixSizes matrix_sizes(LanguageModel& model) { return sizes(model, false); }
MatrixSizes active_matrix_sizes(LanguageModel& model) { return sizes(model, true); }

}  // namespace ingot::infer
