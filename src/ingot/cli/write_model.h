#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ingot/base/progress.h"
#include "ingot/cli/interrupt.h"
#include "ingot/weights/encode.h"

namespace ingot::cli {

/// What the verbs that write models share.

/// Shows how many bytes of a file have been written. While one lives, a signal that would end the process
/// ends the writing with an error instead, so that no partial file is left.
class WriteMeter {
 public:
  WriteMeter(std::string label, std::uint64_t total)
      : bar_({.label = std::move(label), .total = static_cast<std::int64_t>(total)}) {}
  WrittenCallback callback();
  std::uint64_t done() const { return done_; }

 private:
  InterruptWatch watch_;
  ProgressBar bar_;
  std::uint64_t done_ = 0;
};

/// A directory of Hugging Face's layout, or a GGUF file.
bool is_model(const std::string& path);

/// Puts whatever else belongs to a model into a directory: tokenizers, templates, cards; not config.json, not
/// weights. The tokenizers of GGUF files and of Keras-Hub's presets are written as tokenizer.json.
void copy_companions(const std::string& model, const std::string& directory);

/// How a GGUF file is to be written.
struct GgufPlan {
  WeightEncoding encoding;
  std::uint64_t max_bytes = UINT64_MAX;  ///< of one file; several are written where the whole is larger
  std::string label;                     ///< of the progress bar
};
struct WrittenGguf {
  std::string path;  ///< of the first file
  std::uint64_t bytes = 0;
};
/// Writes a model with its metadata and tokenizer, or tensors alone.
WrittenGguf write_gguf_model(const std::string& source, const std::string& destination, const GgufPlan& plan);
WrittenGguf write_gguf_tensors(const std::shared_ptr<const WeightSource>& source,
                               const std::string& destination, const GgufPlan& plan);

}  // namespace ingot::cli
