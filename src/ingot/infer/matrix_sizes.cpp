#include "ingot/infer/matrix_sizes.h"

#include "ingot/kernels/packed.h"
#include "ingot/quant/linear.h"

namespace ingot::infer {
namespace {

void add(MatrixSizes& to, const quant::PackedPtr& packed, const Parameter& weight, double share = 1) {
  const double bytes = static_cast<double>(packed != nullptr ? packed->nbytes() : weight.value.nbytes());
  const auto elements =
      static_cast<double>(packed != nullptr ? packed->rows * packed->cols : weight.value.numel());
  to.bytes += share * bytes;
  to.elements += share * elements;
  if (packed != nullptr && !kernels::is_weight_only(packed->format)) to.int8 += share * elements;
  if (packed != nullptr && kernels::is_row_scaled(packed->format)) to.int8_rows += share * elements;
  if (quant::rounding(packed.get(), quant::kManyRows) == quant::Rounding::spans)
    to.int8_spans += share * elements;
}

void add(MatrixSizes& to, const Linear& linear) { add(to, linear.packed, linear.weight); }

void add(MatrixSizes& to, const ExpertLinear& experts, double share) {
  if (experts.packed.empty()) add(to, nullptr, experts.weight, share);
  for (const quant::PackedPtr& expert : experts.packed) add(to, expert, {}, share);
}

MatrixSizes sizes(const LanguageModel& model, bool active) {
  MatrixSizes m, head;
  for (const auto& layer : model.layers) {
    const Attention& a = layer->self_attn;
    for (const Linear* linear : {&a.q_proj, &a.k_proj, &a.v_proj}) add(m, *linear);
    MatrixSizes& behind = layer == model.layers.back() ? head : m;  // of attention
    add(behind, a.o_proj);
    if (layer->mlp != nullptr) {
      if (layer->mlp->gate_proj != nullptr) add(behind, *layer->mlp->gate_proj);
      add(behind, layer->mlp->up_proj);
      add(behind, layer->mlp->down_proj);
    }
    if (layer->experts != nullptr) {
      const MoeMlp& e = *layer->experts;
      const double share = active ? static_cast<double>(e.choices) / static_cast<double>(e.count) : 1;
      for (const ExpertLinear* linear : {&e.gate_proj, &e.up_proj, &e.down_proj}) add(behind, *linear, share);
    }
  }
  if (model.config.tie_word_embeddings) {
    add(head, model.embed_tokens.packed, model.embed_tokens.weight);
  } else {
    add(head, model.packed_lm_head, model.lm_head);
  }
  m.head = head.elements;
  m.bytes += head.bytes;
  m.elements += head.elements;
  return m;
}

}  // namespace

MatrixSizes matrix_sizes(const LanguageModel& model) { return sizes(model, false); }
MatrixSizes active_matrix_sizes(const LanguageModel& model) { return sizes(model, true); }

}  // namespace ingot::infer
