#pragma once

#include <memory>
#include <vector>

#include "ingot/nn/conv.h"
#include "ingot/nn/linear.h"

namespace ingot {

/// Sizes of the SE-ResNet over the 34 tiles of mahjong; the defaults are the full network (16.5 M
/// parameters).
struct SeResNetConfig {
  std::int64_t input_channels = 85;
  std::int64_t width = 34;  ///< positions: tile types
  std::int64_t channels = 256;
  std::int64_t blocks = 40;
  std::int64_t kernel = 3;  ///< odd, so that the width stays
  std::int64_t norm_groups = 32;
  std::int64_t se_reduction = 16;
  std::int64_t actions = 46;
  std::int64_t policy_channels = 64;
  std::int64_t value_hidden = 512;
  /// Throws InvalidConfig naming the key.
  void validate() const;
};

/// mish(x + gate(h) · h), h = GN(conv(mish(GN(conv(x))))), channels-last.
struct SeBlock {
  SeBlock(const ParamSource& source, const SeResNetConfig& config);
  Tensor operator()(const Tensor& x) const;
  /// Everything after the second convolution.
  Tensor finish(const Tensor& h, const Tensor& residual) const;
  void visit(ParamVisitor& v);

  Conv1d conv1;
  GroupNorm norm1;
  Conv1d conv2;
  GroupNorm norm2;
  Linear squeeze, excite;
};

struct PolicyOutput {
  Tensor policy;  ///< logits, [batch, actions]
  Tensor value;   ///< [batch, 1]
};

/// Stem Conv1d, residual blocks with squeeze-and-excitation, a policy and a value head. Inside, activations
/// are channels-last: [batch, width, channels].
struct SeResNet {
  SeResNet(const ParamSource& source, const SeResNetConfig& config);
  /// observation: [batch, input_channels, width]. Throws ShapeMismatch for another.
  PolicyOutput operator()(const Tensor& observation) const;
  /// The trunk's result, [batch, width, channels].
  Tensor features(const Tensor& observation) const;
  PolicyOutput heads(const Tensor& features) const;
  /// The value head's result for the trunk's, [batch, 1].
  Tensor value(const Tensor& features) const;
  void visit(ParamVisitor& v);

  SeResNetConfig config;
  Conv1d stem;
  std::vector<std::unique_ptr<SeBlock>> blocks;
  Conv1d policy_conv;    ///< kernel 1
  Conv1d policy_output;  ///< kernel = width: [actions, policy_channels, width], as a flatten and a Linear
  Linear value_hidden, value_output;
};

/// A SeResNet for inference: its convolution weights in the order that the kernel reads. Shares the other
/// parameters with the network, which must outlive it; after an update of the weights call repack().
class PackedSeResNet {
 public:
  explicit PackedSeResNet(const SeResNet& net);
  void repack();
  /// Without gradients. observation: [batch, input_channels, width].
  PolicyOutput operator()(const Tensor& observation) const;

 private:
  const SeResNet& net_;
  std::vector<Tensor> prepacked_;  // the stem's, two for each block, the policy head's two
};

}  // namespace ingot
