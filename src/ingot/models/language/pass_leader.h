#pragma once

#include <exception>
#include <memory>
#include <span>

#include "ingot/core/tensor.h"
#include "ingot/models/language/kv_cache.h"

namespace ingot {

/// Is told what a model is about to compute, so that others compute it with it: the ranks that have the model
/// together.
class PassLeader {
 public:
  virtual ~PassLeader() = default;
  virtual void lead_hidden(const Tensor& tokens, std::span<const CacheSegment> segments) = 0;
  virtual void lead_logits(const Tensor& hidden) = 0;
  /// What was begun ended in an error here: the others wait in vain.
  virtual void fail() noexcept = 0;
};

/// The scope of what a leader, where there is one, was told.
class LedPass {
 public:
  LedPass(PassLeader* leader, const Tensor& tokens, std::span<const CacheSegment> segments)
      : leader_(leader) {
    if (leader_ != nullptr) leader_->lead_hidden(tokens, segments);
  }
  LedPass(PassLeader* leader, const Tensor& hidden) : leader_(leader) {
    if (leader_ != nullptr) leader_->lead_logits(hidden);
  }
  ~LedPass() {
    if (leader_ != nullptr && std::uncaught_exceptions() > exceptions_) leader_->fail();
  }
  LedPass(const LedPass&) = delete;
  LedPass& operator=(const LedPass&) = delete;

 private:
  PassLeader* leader_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace ingot
