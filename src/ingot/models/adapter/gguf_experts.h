#pragma once

#include <string>

#include "ingot/core/tensor.h"
#include "ingot/models/adapter/gguf_adapter.h"
#include "ingot/models/adapter/gguf_rows.h"
#include "ingot/models/adapter/peft_experts.h"

namespace ingot {

/// A layer of experts as GGUF files of the family have it, `blk.0.ffn_gate_exps.weight`: which of its rows
/// each row there is. NotImplemented where it has no tensor of its own.
GgufRows experts_in_gguf(const AdapterBase& base, const std::string& place, const AdaptedExperts& at);

/// B [experts, out, rank] of a layer in the order of GGUF's rows, multiplied by `scale`.
Tensor expert_rows_to_gguf(const Tensor& b, const GgufRows& rows, float scale);

/// The pair lora_a [experts, rank, in] and lora_b [experts, out, rank] of a GGUF file; llama.cpp divides
/// `alpha` by the rank. Error where the model's stack has another shape.
ExpertStacks stacks_of_gguf(const std::string& file, const AdaptedExperts& at, const GgufRows& rows,
                            const Tensor& lora_a, const Tensor& lora_b, double alpha);

}  // namespace ingot
