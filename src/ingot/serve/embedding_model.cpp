#include "ingot/serve/embedding_model.h"

#include <utility>

#include "ingot/infer/scheduler.h"

namespace ingot::serve {
namespace {

constexpr std::size_t kMostWaiting = 256;

}  // namespace

EmbeddingModel::EmbeddingModel(const std::string& path, std::string name)
    : name_(std::move(name)),
      embedder_(SentenceEmbedder::open(path, encoder_options())),
      thread_([this] { work(); }) {}

EmbeddingModel::~EmbeddingModel() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EmbeddingModel::submit(Ids texts, std::int64_t prompt_tokens,
                            std::function<void(const Tensor&, std::exception_ptr)> done) {
  const std::lock_guard lock(mutex_);
  INGOT_CHECK(jobs_.size() < kMostWaiting, infer::QueueFull(static_cast<std::int64_t>(jobs_.size())));
  jobs_.push_back({std::move(texts), prompt_tokens, std::move(done)});
  changed_.notify_all();
}

void EmbeddingModel::work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    Tensor vectors;
    std::exception_ptr error;
    try {
      vectors = embedder_.embed_ids(job.texts, job.prompt_tokens);
    } catch (...) {
      error = std::current_exception();
    }
    job.done(vectors, error);
  }
}

}  // namespace ingot::serve
