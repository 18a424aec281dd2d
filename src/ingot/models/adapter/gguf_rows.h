#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/models/adapter/gguf_adapter.h"

namespace ingot {

/// A matrix of the family's checkpoints, or a stack of those.
struct ModuleSize {
  std::int64_t rows = 0, columns = 0;
  bool transposed = false;   ///< checkpoints hold [columns, rows]
  std::int64_t experts = 0;  ///< > 0: of so many experts
  bool apart = false;        ///< of which each has a tensor; else they are stacked
  bool is_stack() const { return experts > 0 && !apart; }
};

/// f32 [rows, 2], or [experts, rows, 2]: row i is (i, 1), so that what is made of it tells where each row
/// goes and what it is multiplied by.
Tensor numbered_rows(const ModuleSize& size);

/// The rows of a module that one tensor of GGUF files has, in its order, each multiplied by its factor.
struct GgufRows {
  std::string name;
  std::vector<std::int64_t> rows;
  std::vector<float> factors;
};

/// Of numbered_rows().
GgufRows read_numbered_rows(std::string name, const Tensor& numbered);

/// Rows of a module's b [rows, rank] as GGUF files have them; `scale` beside their factors.
Tensor rows_to_gguf(const Tensor& b, const GgufRows& at, float scale);
/// The reverse: into columns [first, first + rank) of the module's b, which is contiguous, multiplied by
/// `scale`.
void rows_from_gguf(const Tensor& lora_b, const GgufRows& at, std::int64_t first, float scale,
                    const Tensor& b);

/// The tensors that GGUF files of the family have for some tensors of its checkpoints, all of this size:
/// those of `module`, or of all experts of a layer. NotImplemented where they are not matrices of whole rows.
std::vector<GgufRows> rows_in_gguf(const AdapterBase& base, const std::string& place,
                                   const std::string& module, const std::vector<std::string>& tensors,
                                   const ModuleSize& size);

}  // namespace ingot
