#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ingot/export/gguf.h"
#include "ingot/weights/quantized_writer.h"

namespace ingot {

struct ImportanceMatrix;

/// How int4 and int8 directories are rounded for a text. gptq: column after column, errors moved to those to
/// come. awq: to the nearest, after columns that large inputs meet were made larger. awq_gptq: both.
enum class CalibratedRounding : std::uint8_t { gptq, awq, awq_gptq };

/// How a model's weights are rounded to fewer bits and written.
struct QuantizeOptions {
  std::string source;       ///< a model directory, or a .gguf file
  std::string destination;  ///< NAME.gguf for llama.cpp's formats; a directory for int4, int8, fp8 and nf4
  std::string format;       ///< "q4_k", "q8_0", "int4-g128", "nf4", "fp8", ...
  std::uint64_t max_shard_bytes = 5'000'000'000;  ///< a directory gets several files above this
  /// What the columns of matrices count; null: all the same. For .gguf files.
  std::shared_ptr<const ImportanceMatrix> importance = nullptr;
  /// For directories of int4 and int8: layers that it knows are rounded by `rounding`.
  InputProducts products = {};
  CalibratedRounding rounding = CalibratedRounding::gptq;
};

/// InvalidConfig lists the formats where it is none, or none that the destination can hold.
WrittenModel quantize_model(const QuantizeOptions& options, const WriteProgress& progress = {});
/// InvalidConfig that lists the formats for a name that is none.
void check_quantized_format(const std::string& format);

}  // namespace ingot
