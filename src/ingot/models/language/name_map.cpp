#include "ingot/models/language/name_map.h"

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// GPT-2's Conv1D layers store [in, out], and query, key and value as one matrix.
std::vector<NameRule> gpt2_rules() {
  std::vector<NameRule> rules{{"model.embed_tokens.weight", "transformer.wte.weight"},
                              {"model.embed_positions.weight", "transformer.wpe.weight"},
                              {"model.norm.weight", "transformer.ln_f.weight"},
                              {"model.norm.bias", "transformer.ln_f.bias"}};
  const auto layer = [&rules](const std::string& ours, const std::string& theirs, bool matrix, int part = 0,
                              int parts = 1) {
    for (const char* kind : {"weight", "bias"}) {
      rules.push_back({fmt::format("model.layers.*.{}.{}", ours, kind),
                       fmt::format("transformer.h.*.{}.{}", theirs, kind), matrix && kind[0] == 'w', part,
                       parts});
    }
  };
  layer("input_layernorm", "ln_1", false);
  layer("self_attn.q_proj", "attn.c_attn", true, 0, 3);
  layer("self_attn.k_proj", "attn.c_attn", true, 1, 3);
  layer("self_attn.v_proj", "attn.c_attn", true, 2, 3);
  layer("self_attn.o_proj", "attn.c_proj", true);
  layer("post_attention_layernorm", "ln_2", false);
  layer("mlp.up_proj", "mlp.c_fc", true);
  layer("mlp.down_proj", "mlp.c_proj", true);
  return rules;
}

std::string with_layer(const std::string& pattern, std::int64_t layer) {
  const std::size_t star = pattern.find('*');
  return star == std::string::npos
             ? pattern
             : pattern.substr(0, star) + std::to_string(layer) + pattern.substr(star + 1);
}

// Calls f(rule, layer) for every parameter that the rules name.
template <class F>
void for_each_rule(const LanguageConfig& config, F&& f) {
  for (const NameRule& rule : name_rules(config.model_type)) {
    const std::int64_t layers = rule.ours.find('*') == std::string::npos ? 1 : config.num_hidden_layers;
    for (std::int64_t layer = 0; layer < layers; ++layer) f(rule, layer);
  }
}

}  // namespace

const std::vector<NameRule>& name_rules(const std::string& model_type) {
  static const std::vector<NameRule> gpt2 = gpt2_rules();
  static const std::vector<NameRule> none;
  return model_type == "gpt2" ? gpt2 : none;
}

std::map<std::string, Tensor> import_names(const LanguageConfig& config,
                                           std::map<std::string, Tensor> checkpoint) {
  const NoGrad no_grad;
  if (name_rules(config.model_type).empty()) return checkpoint;
  std::map<std::string, Tensor> ours;
  std::vector<std::string> used;
  for_each_rule(config, [&](const NameRule& rule, std::int64_t layer) {
    std::string name = with_layer(rule.checkpoint, layer);
    auto found = checkpoint.find(name);
    if (found == checkpoint.end() &&
        name.starts_with("transformer.")) {  // the hub's original file has no prefix
      name = name.substr(12);
      found = checkpoint.find(name);
    }
    if (found == checkpoint.end()) return;  // the parameter source lists what is missing
    used.push_back(name);
    Tensor tensor = rule.transposed ? transpose(found->second, 0, 1) : found->second;
    if (rule.parts > 1) {
      const std::int64_t rows = tensor.dim(0) / rule.parts;
      tensor = slice(tensor, 0, rule.part * rows, (rule.part + 1) * rows);
    }
    ours[with_layer(rule.ours, layer)] = contiguous(tensor);
  });
  for (const std::string& name : used) checkpoint.erase(name);
  ours.merge(checkpoint);
  return ours;
}

std::map<std::string, Tensor> export_names(const LanguageConfig& config,
                                           const std::map<std::string, Tensor>& ours) {
  const NoGrad no_grad;
  if (name_rules(config.model_type).empty()) return ours;
  std::map<std::string, std::vector<Tensor>> gathered;
  std::map<std::string, const NameRule*> rule_of;
  for_each_rule(config, [&](const NameRule& rule, std::int64_t layer) {
    const auto found = ours.find(with_layer(rule.ours, layer));
    if (found == ours.end()) return;
    const std::string name = with_layer(rule.checkpoint, layer);
    gathered[name].push_back(found->second.detach());  // the rules list a fused matrix' parts in order
    rule_of[name] = &rule;
  });
  std::map<std::string, Tensor> checkpoint;
  for (auto& [name, parts] : gathered) {
    const Tensor whole = parts.size() == 1 ? parts.front() : concat(parts, 0);
    checkpoint[name] = contiguous(rule_of[name]->transposed ? transpose(whole, 0, 1) : whole);
  }
  return checkpoint;
}

}  // namespace ingot
