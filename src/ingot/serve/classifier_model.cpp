#include "ingot/serve/classifier_model.h"

#include <utility>

#include "ingot/base/error.h"
#include "ingot/infer/sentence_embedder.h"

namespace ingot::serve {

ClassifierModel::ClassifierModel(const std::string& path, std::string name)
    : name_(std::move(name)), classifier_(TextClassifier::open(path, encoder_options())) {
  INGOT_CHECK(
      classifier_.labels().of == LabelsOf::texts,
      InvalidConfig("reranker_model", path + " labels tokens; expected a cross-encoder or another model that "
                                             "labels texts"));
}

void ClassifierModel::submit(EncodedTexts texts, ScoreKind kind,
                             std::function<void(const Tensor&, std::exception_ptr)> done) {
  queue_.submit([this, texts = std::move(texts), kind, done = std::move(done)] {
    Tensor scores;
    std::exception_ptr error;
    try {
      scores = classifier_.scores(texts, kind);
    } catch (...) {
      error = std::current_exception();
    }
    done(scores, error);
  });
}

}  // namespace ingot::serve
