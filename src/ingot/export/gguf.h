#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ingot/export/model_files.h"
#include "ingot/quant/matrix_format.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// How a GGUF file is to be written.
struct GgufPlan {
  WeightEncoding encoding;
  std::uint64_t max_bytes = UINT64_MAX;  ///< of one file; several are written where the whole is larger
};

/// What was written.
struct WrittenModel {
  std::string path;           ///< of several files the first one
  std::uint64_t bytes = 0;    ///< of tensors
  quant::StandIns stand_ins;  ///< matrices that do not have the format that was asked for
};

/// Writes a model with its metadata and tokenizer, or tensors alone.
WrittenModel write_gguf_model(const std::string& source, const std::string& destination, const GgufPlan& plan,
                              const WriteProgress& progress = {});
WrittenModel write_gguf_tensors(const std::shared_ptr<const WeightSource>& source,
                                const std::string& destination, const GgufPlan& plan,
                                const WriteProgress& progress = {});

}  // namespace ingot
