#pragma once

#include <map>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/models/language/config.h"

namespace ingot {

/// How one parameter of ours stands in a family's checkpoints. Both directions, import and export, read this.
struct NameRule {
  std::string ours;         ///< with `*` for the layer's number: "model.layers.*.mlp.up_proj.weight"
  std::string checkpoint;   ///< with `*` likewise
  bool transposed = false;  ///< the checkpoint stores [in, out]
  int part = 0;             ///< which of `parts` equal to this one along the output axis, for fused matrices
  int parts = 1;
};

/// The rules of a family; empty where its checkpoints use our names (Llama's).
const std::vector<NameRule>& name_rules(const std::string& model_type);

/// A checkpoint's tensors under our names: renamed, split and transposed. Tensors that no rule knows keep
/// their names.
std::map<std::string, Tensor> import_names(const LanguageConfig& config,
                                           std::map<std::string, Tensor> checkpoint);
/// The reverse, for writing.
std::map<std::string, Tensor> export_names(const LanguageConfig& config,
                                           const std::map<std::string, Tensor>& ours);

}  // namespace ingot
