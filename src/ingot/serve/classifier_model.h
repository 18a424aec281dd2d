#pragma once

#include <exception>
#include <functional>
#include <string>

#include "ingot/infer/text_classifier.h"
#include "ingot/serve/work_queue.h"

namespace ingot::serve {

/// A cross-encoder or another classifier of texts that is served beside the language model, on a thread of
/// its own.
class ClassifierModel {
 public:
  /// Throws as TextClassifier::open does, and InvalidConfig where the model labels tokens.
  ClassifierModel(const std::string& path, std::string name);

  const std::string& name() const { return name_; }
  const TextClassifier& classifier() const { return classifier_; }
  /// Calls `done` with the scores of texts or pairs, f32 [texts, labels], or with the error. QueueFull where
  /// too many wait.
  void submit(EncodedTexts texts, ScoreKind kind,
              std::function<void(const Tensor& scores, std::exception_ptr error)> done);

 private:
  std::string name_;
  TextClassifier classifier_;
  WorkQueue queue_;
};

}  // namespace ingot::serve
