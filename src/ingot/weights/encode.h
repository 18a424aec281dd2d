#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/safetensors_writer.h"
#include "ingot/weights/weight_source.h"

namespace ingot::quant {
struct BlockFormat;
class StandIns;
}  // namespace ingot::quant

namespace ingot {

struct ImportanceMatrix;

/// What a converted file's weights are stored in: a dtype, or a block format of GGUF; neither: as they are.
struct WeightEncoding {
  std::optional<DType> dtype;
  const quant::BlockFormat* blocks = nullptr;
  /// What the columns of matrices count where blocks are rounded; null: all the same. By GGUF's names.
  std::shared_ptr<const ImportanceMatrix> importance;
};
/// "bf16", "q4_k", ...; InvalidConfig that lists them otherwise.
WeightEncoding parse_weight_encoding(std::string_view text);

/// A source's tensors in another encoding, each made when it is asked for. A dtype is for all floating-point
/// tensors but, with `vectors_as_f32` (llama.cpp wants it so), those of one axis and biases of experts, which
/// become f32. Blocks
/// are for matrices, by the rule of quant::matrix_format; `stand_ins` (where given) is told of each.
std::shared_ptr<const WeightSource> encode_weights(std::shared_ptr<const WeightSource> source,
                                                   const WeightEncoding& encoding, bool vectors_as_f32,
                                                   quant::StandIns* stand_ins = nullptr);

/// Called with a tensor's stored size once it has been written.
using WrittenCallback = std::function<void(std::uint64_t)>;

/// Bytes of all tensors in the dtypes that loading gives, as stored_tensors() has them written: blocks of a
/// quantized file are larger then.
std::uint64_t bytes_as_loaded(const WeightSource& source);
/// A source's tensors for a writer, in their order. The source must outlive the writing. NotImplemented for
/// an element type without a dtype.
std::vector<StoredTensor> stored_tensors(const WeightSource& source, const WrittenCallback& written = {});
/// The same for GGUF files, where blocks stay what they are.
std::vector<GgufTensor> gguf_tensors(const WeightSource& source, const WrittenCallback& written = {});

}  // namespace ingot
