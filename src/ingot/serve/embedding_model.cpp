#include "ingot/serve/embedding_model.h"

#include <utility>

namespace ingot::serve {

EmbeddingModel::EmbeddingModel(const std::string& path, std::string name)
    : name_(std::move(name)), embedder_(SentenceEmbedder::open(path, encoder_options())) {}

void EmbeddingModel::submit(Ids texts, std::int64_t prompt_tokens,
                            std::function<void(const Tensor&, std::exception_ptr)> done) {
  queue_.submit([this, texts = std::move(texts), prompt_tokens, done = std::move(done)] {
    Tensor vectors;
    std::exception_ptr error;
    try {
      vectors = embedder_.embed_ids(texts, prompt_tokens);
    } catch (...) {
      error = std::current_exception();
    }
    done(vectors, error);
  });
}

}  // namespace ingot::serve
