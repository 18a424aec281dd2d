#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ingot/infer/sentence_embedder.h"

namespace ingot::serve {

/// A sentence encoder that is served beside the language model, on a thread of its own.
class EmbeddingModel {
 public:
  using Ids = std::vector<std::vector<std::int32_t>>;

  /// Throws as SentenceEmbedder::open does.
  EmbeddingModel(const std::string& path, std::string name);
  /// What still waits is dropped.
  ~EmbeddingModel();
  EmbeddingModel(const EmbeddingModel&) = delete;
  EmbeddingModel& operator=(const EmbeddingModel&) = delete;

  const std::string& name() const { return name_; }
  const SentenceEmbedder& embedder() const { return embedder_; }
  /// Embeds texts, given as ids with their special tokens, of which the first `prompt_tokens` are the
  /// encoder's prompt, and calls `done` with f32 [texts, dimension], or
  /// with the error. QueueFull where too many wait.
  void submit(Ids texts, std::int64_t prompt_tokens,
              std::function<void(const Tensor& vectors, std::exception_ptr error)> done);

 private:
  struct Job {
    Ids texts;
    std::int64_t prompt_tokens = 0;
    std::function<void(const Tensor&, std::exception_ptr)> done;
  };
  void work();

  std::string name_;
  SentenceEmbedder embedder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ingot::serve
