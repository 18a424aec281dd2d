#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ingot/weights/weight_source.h"

namespace ingot {

/// What PyTorch's checkpoint of the same model calls a tensor, and how it lays it out.
struct TorchName {
  std::string name;
  bool transposed = false;  ///< there [out, in]
  bool squeezed = false;    ///< there without the first axis, which has one element
};

/// For a name in a file of a TensorFlow program: those of transformers' TF models ("bert/tf_bert_model/bert/
/// encoder/layer_._0/output/dense/kernel:0"), of Google's BERT ("bert/encoder/layer_0/output/dense/kernel")
/// and of OpenAI's GPT-2 ("model/h0/mlp/c_fc/w"). None for a name of another pattern.
std::optional<TorchName> torch_name_of(std::string_view name);

/// A checkpoint of TensorFlow or Keras under PyTorch's names, each tensor put in order when it is asked for.
/// Tensors that no rule knows keep theirs; what is not a weight (the optimizer's averages, the step) goes.
/// Any other source comes back as it is.
std::shared_ptr<const WeightSource> under_torch_names(std::shared_ptr<const WeightSource> source);

}  // namespace ingot
