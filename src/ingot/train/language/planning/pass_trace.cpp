#include "ingot/train/language/planning/pass_trace.h"

#include <algorithm>
#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/node.h"
#include "ingot/nn/visit.h"
#include "ingot/train/prefetched_blocks.h"

namespace ingot {

// Asked for as WeightShards is, which has two layers of them in memory.
class PassTrace::Layers final : public PrefetchedBlocks {
 public:
  Layers(PassTrace& trace, LanguageModel& model) : PrefetchedBlocks(std::ssize(model.layers)), trace_(trace) {
    for (std::int64_t i = 0; i < blocks(); ++i) {
      for (Parameter* parameter : parameters(ModuleRef(*model.layers[static_cast<std::size_t>(i)]))) {
        if (parameter->value.shape().rank() < 2) continue;
        save_by_identity(parameter->value, [this, i, parameter] {
          acquire_backward(i);
          return parameter->value;
        });
        leaves_.push_back(&parameter->value);
      }
    }
  }
  ~Layers() override {
    for (Tensor* leaf : leaves_) save_by_identity(*leaf, {});
  }
  std::int32_t here() const { return here_; }
  void leave() { drop_all(); }

 private:
  void fetch(std::int64_t) override {
    trace_.mark(-1);
    ++here_;
  }
  void finish(std::int64_t) override {}
  void drop(std::int64_t) override {
    trace_.mark(-1);
    --here_;
  }

  PassTrace& trace_;
  std::vector<Tensor*> leaves_;
  std::int32_t here_ = 0;
};

PassTrace::PassTrace(LanguageModel& model, MemoryTracker& memory, bool gradients)
    : model_(model), memory_(memory) {
  for (Parameter* parameter : parameters(ModuleRef(model))) {
    if (!parameter->trainable()) continue;
    gradients_.push_back({parameter->name, parameter->value.nbytes(), parameter->value.shape().rank() > 1});
    if (!gradients) continue;
    const auto number = static_cast<std::int32_t>(watched_.size());
    on_gradient_ready(parameter->value, [this, number] { mark(number); });
    watched_.push_back(parameter->value);
  }
  if (model.lease != nullptr) return;
  layers_ = std::make_unique<Layers>(*this, model);
  model.lease = layers_.get();
}

PassTrace::~PassTrace() {
  for (const Tensor& leaf : watched_) on_gradient_ready(leaf, {});
  if (layers_ != nullptr) model_.lease = nullptr;
}

void PassTrace::begin() {
  if (layers_ != nullptr) layers_->leave();
  moments_.clear();
  before_ = memory_.allocated();
  gradients_before_ = memory_.allocated(MemoryTag::gradient);
  memory_.reset_peak();
}

void PassTrace::mark(std::int32_t gradient) {
  const auto above = [](std::size_t bytes, std::size_t base) { return bytes - std::min(bytes, base); };
  moments_.push_back({.most = above(memory_.peak(), before_),
                      .left = above(memory_.allocated(), before_),
                      .gradients = above(memory_.allocated(MemoryTag::gradient), gradients_before_),
                      .layers = layers_ == nullptr ? 0 : layers_->here(),
                      .gradient = gradient});
  memory_.reset_peak();
}

std::vector<PassMoment> PassTrace::end() {
  mark(-1);
  return std::exchange(moments_, {});
}

}  // namespace ingot
