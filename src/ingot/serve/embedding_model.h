#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "ingot/infer/sentence_embedder.h"
#include "ingot/serve/work_queue.h"

namespace ingot::serve {

/// A sentence encoder that is served beside the language model, on a thread of its own.
class EmbeddingModel {
 public:
  using Ids = std::vector<std::vector<std::int32_t>>;

  /// Throws as SentenceEmbedder::open does.
  EmbeddingModel(const std::string& path, std::string name);

  const std::string& name() const { return name_; }
  const SentenceEmbedder& embedder() const { return embedder_; }
  /// Embeds texts, given as ids with their special tokens, of which the first `prompt_tokens` are the
  /// encoder's prompt, and calls `done` with f32 [texts, dimension], or
  /// with the error. QueueFull where too many wait.
  void submit(Ids texts, std::int64_t prompt_tokens,
              std::function<void(const Tensor& vectors, std::exception_ptr error)> done);

 private:
  std::string name_;
  SentenceEmbedder embedder_;
  WorkQueue queue_;
};

}  // namespace ingot::serve
