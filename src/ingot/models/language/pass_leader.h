#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string_view>

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
  /// What was begun ended in an error here, of which the message is `why`: the others wait in vain.
  virtual void fail(std::string_view why) noexcept = 0;
};

/// Does `work`, which a leader, where there is one, has begun on others, too.
template <class Work>
auto led_pass(PassLeader* leader, Work&& work) {
  if (leader == nullptr) return work();
  try {
    return work();
  } catch (const std::exception& error) {
    leader->fail(error.what());
    throw;
  }
}

}  // namespace ingot
