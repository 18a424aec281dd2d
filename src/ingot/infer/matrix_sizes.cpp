#include "ingot/infer/matrix_sizes.h"

#include "ingot/kernels/packed.h"
#include "ingot/quant/linear.h"

namespace ingot::infer {
namespace {

void add(MatrixSizes& to, const quant::PackedPtr& packed, const Parameter& dense, double share = 1) {
  const double bytes = static_cast<double>(packed != nullptr ? packed->nbytes() : dense.value.nbytes());
  const auto elements =
      static_cast<double>(packed != nullptr ? packed->rows * packed->cols : dense.value.numel());
  to.bytes += share * bytes;
  to.elements += share * elements;
  if (packed != nullptr && !kernels::is_weight_only(packed->format)) to.int8 += share * elements;
  if (packed != nullptr && kernels::is_row_scaled(packed->format)) to.int8_rows += share * elements;
  if (quant::rounding(packed.get(), quant::kManyRows) == quant::Rounding::spans)
    to.int16_spans += share * elements;
}

void add(MatrixSizes& to, const LinearWeight& weight) { add(to, weight.packed, weight.dense); }

void add(MatrixSizes& to, const ProjectionGroup& group) {
  for (std::size_t i = 0; i < group.size(); ++i) add(to, group[i].weight);
}

void add(MatrixSizes& to, const ExpertLinear& experts, double share) {
  if (!experts.is_quantized()) add(to, nullptr, experts.dense, share);
  for (const quant::PackedPtr& expert : experts.packed) add(to, expert, {}, share);
}

// What an attention layer multiplies with before its output.
void add_inputs(MatrixSizes& to, const Attention& attention) {
  add(to, attention.qkv_proj);
  if (attention.latent == nullptr) return;
  if (attention.latent->q_b_proj != nullptr) add(to, attention.latent->q_b_proj->weight);
  add(to, attention.latent->kv_b_proj.weight);
}

MatrixSizes sizes(const LanguageModel& model, bool active) {
  MatrixSizes m, head;
  for (const auto& layer : model.layers) {
    if (layer->self_attn != nullptr) add_inputs(m, *layer->self_attn);
    if (layer->conv != nullptr) add(m, layer->conv->in_proj.weight);
    if (layer->mamba != nullptr) add(m, layer->mamba->in_proj.weight);
    if (layer->linear_attn != nullptr) add(m, layer->linear_attn->in_proj);
    MatrixSizes& behind = layer == model.layers.back() ? head : m;  // of attention
    if (layer->mlp == nullptr || &layer->mixer_output() != &layer->mlp->down_proj.weight)
      add(behind, layer->mixer_output());
    if (layer->self_attn != nullptr && layer->mamba != nullptr) add(behind, layer->mamba->out_proj.weight);
    if (layer->mlp != nullptr) {
      add(behind, layer->mlp->in_proj);
      add(behind, layer->mlp->down_proj.weight);
    }
    if (layer->experts != nullptr) {
      const MoeMlp& e = *layer->experts;
      const double share = active ? static_cast<double>(e.router.choices) / static_cast<double>(e.count) : 1;
      const ExpertLinear* const gate = e.gate_proj.get();  // null in experts without one
      for (const ExpertLinear* linear : {gate, &e.up_proj, &e.down_proj})
        if (linear != nullptr) add(behind, *linear, share);
      if (e.shared_expert != nullptr) {
        add(behind, e.shared_expert->in_proj);
        add(behind, e.shared_expert->down_proj.weight);
      }
    }
  }
  add(head, model.head());
  m.head = head.elements;
  m.bytes += head.bytes;
  m.elements += head.elements;
  return m;
}

}  // namespace

MatrixSizes matrix_sizes(const LanguageModel& model) { return sizes(model, false); }
MatrixSizes active_matrix_sizes(const LanguageModel& model) { return sizes(model, true); }

}  // namespace ingot::infer
