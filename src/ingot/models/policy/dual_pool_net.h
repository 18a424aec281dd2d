#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/architecture_check.h"
#include "ingot/nn/conv.h"
#include "ingot/nn/linear.h"

namespace ingot {

/// Sizes of the network for self-play in mahjong; the defaults are the full one (16.5 M parameters).
struct DualPoolNetConfig {
  std::int64_t input_channels = 85;
  std::int64_t width = 34;  ///< positions: tile types
  std::int64_t channels = 256;
  std::int64_t blocks = 40;
  std::int64_t kernel = 3;  ///< odd, so that the width stays
  std::int64_t norm_groups = 32;
  std::int64_t se_reduction = 16;
  std::int64_t actions = 46;
  std::int64_t rank_context = 16;  ///< numbers about the scores, that the rank head reads too
  bool final_norm = true;          ///< before the heads: 2·channels parameters
  /// Throws InvalidConfig naming the key.
  void validate() const;

  /// That of a config.json, whose model_type is kDualPoolNet. FormatError for another model; `path` names the
  /// file.
  static DualPoolNetConfig from_json(std::string_view json, const std::string& path);
  std::string to_json() const;
};
inline constexpr std::string_view kDualPoolNet = "dual_pool_net";

/// x + gate(h)·h, h = conv(mish(GN(conv(mish(GN(x)))))): pre-activation (He et al. 2016), channels-last. The
/// gate is sigmoid(mlp(mean of h) + mlp(max of h)), means and maxima over the positions.
struct DualPoolBlock {
  DualPoolBlock(const ParamSource& source, const DualPoolNetConfig& config);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  GroupNorm norm1;
  Conv1d conv1;
  GroupNorm norm2;
  Conv1d conv2;
  Linear squeeze, excite;
};

/// Hidden layers with ReLU between them.
struct ReluMlp {
  /// `widths`: of the input, the hidden layers and the output, whose weights start orthogonal with
  /// `output_gain`.
  ReluMlp(const ParamSource& source, const std::vector<std::int64_t>& widths, double output_gain);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  std::vector<std::unique_ptr<Linear>> layers;
};

/// Logits, [batch, ...].
struct DualPoolOutput {
  Tensor policy;  ///< [batch, actions]
  Tensor value;   ///< [batch, 1]; no logit
  Tensor rank;    ///< of the 24 orders that four players can end in, [batch, 24]
  Tensor tenpai;  ///< of each opponent, [batch, 3]
  Tensor danger;  ///< of each tile for each opponent, [batch, 3, width]
};

/// Pre-activation SE-ResNet with the heads of mahjong self-play.
struct DualPoolNet {
  using Config = DualPoolNetConfig;
  DualPoolNet(const ParamSource& source, const DualPoolNetConfig& config);
  // A PortableModel.
  static WeightMap weight_map(const Config&) { return {}; }
  static ArchitectureReport architecture_check(const Config& config, const WeightSource& weights);
  static std::unique_ptr<DualPoolNet> from_weights(const Config& config, const WeightSource& weights,
                                                   const LoadOptions& options = {});
  /// observation: [batch, input_channels, width]; rank_context: [batch, rank_context]; of any floating dtype:
  /// they are computed with in the parameters', which the result has, too. Throws ShapeMismatch.
  DualPoolOutput operator()(const Tensor& observation, const Tensor& rank_context) const;
  /// The trunk's result, [batch, width, channels].
  Tensor features(const Tensor& observation) const;
  /// The policy head's logits for it, [batch, actions].
  Tensor policy(const Tensor& features) const;
  /// The value head's for it, [batch, 1].
  Tensor value(const Tensor& features) const;
  void visit(ParamVisitor& v);

  DualPoolNetConfig config;
  Conv1d stem;
  std::vector<std::unique_ptr<DualPoolBlock>> blocks;
  std::unique_ptr<GroupNorm> norm;
  Conv1d policy_conv;
  Conv1d policy_output;  ///< kernel = width: [actions, 64, width], as a flatten and a Linear
  ReluMlp value_head, rank_head, tenpai_head;
  Conv1d danger_conv;
};

/// The same network with `channels` more input channels behind its own, whose weights are 0.
std::unique_ptr<DualPoolNet> with_more_inputs(DualPoolNet& net, std::int64_t channels);

/// Writes config.json and model.safetensors, all or nothing. IoError where the directory cannot be written.
void save_dual_pool_net(const std::string& directory, DualPoolNet& net);
/// Opens such a directory. Throws IoError, FormatError where it holds another model, and Error listing every
/// tensor that is missing or has another shape than config.json says.
std::unique_ptr<DualPoolNet> open_dual_pool_net(const std::string& directory,
                                                const LoadOptions& options = {});

}  // namespace ingot
