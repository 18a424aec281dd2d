#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/nn/expert_linear.h"
#include "ingot/nn/expert_ranks.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/projection_group.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// How a batch of tokens used the experts of one layer. f32 [experts], but for the last.
struct RouterLoad {
  Tensor probability;  ///< the router's probabilities, summed over the tokens
  Tensor counts;       ///< (token, choice) pairs that each expert got; no gradients
  Tensor squares;      ///< f32 [1]: log²Σexp of the router's logits, summed over the tokens
};

/// The loss that keeps experts equally busy (Fedus et al. 2021, eq. 4 to 6), as transformers computes it:
/// over all layers' tokens together, experts · Σ (pairs of an expert / tokens) · (its mean probability).
/// Equal use gives the number of choices. `tokens`: those of one layer.
Tensor load_balancing_loss(std::span<const RouterLoad> layers, std::int64_t tokens);

/// The loss that keeps routers' logits small (Zoph et al. 2022, arXiv:2202.08906, eq. 5), as transformers
/// computes it: the mean of log²Σexp over all layers' tokens together. The same for sigmoid scores.
Tensor router_z_loss(std::span<const RouterLoad> layers, std::int64_t tokens);

/// The MLP beside the experts that every token goes through (Qwen 2 MoE), of the same kind as they are.
struct SharedExpert {
  SharedExpert(const ParamSource& source, const LanguageConfig& config);
  /// x: [tokens, hidden].
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  ProjectionGroup in_proj;  ///< gate_proj and up_proj, or up_proj alone
  Linear down_proj;
  MlpKind kind;
};

/// Chooses each token's experts: those of the highest scores, softmax or sigmoid of the logits. Where the
/// family has a correction bias it is added for the choice alone (DeepSeek V3, arXiv:2412.19437, eq. 16).
/// SparseMixer (Liu et al. 2024, arXiv:2409.12136) chooses in training as in inference: it samples nothing.
struct Router {
  struct Choice {
    Tensor scores;   ///< f32 [tokens, experts]
    Tensor experts;  ///< i64 [tokens, choices]
    Tensor weights;  ///< f32 [tokens, choices]: what their outputs are multiplied by
    Tensor logits;   ///< f32 [tokens, experts]: what scores are made of
  };

  Router(const ParamSource& source, const LanguageConfig& config);
  /// x: [tokens, hidden].
  Choice operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Linear gate;                        ///< [experts, hidden], with a bias where the family has one
  Parameter e_score_correction_bias;  ///< f32 [1, experts], not trained by gradients; or undefined
  /// [hidden] and [experts], or undefined: of the input's norm, and of what experts give (Gemma 4).
  Parameter input_scale, per_expert_scale;
  RouterScore score;
  std::int64_t choices, groups, chosen_groups, judges;
  bool normalize, ranks_logits;
  double norm_eps, scale, near;
  float input_eps;  ///< of the input's norm

 private:
  Tensor logits(const Tensor& x) const;
  Tensor scaled(Tensor weights, const Tensor& experts) const;
  Choice sparse_mixer(const Tensor& logits) const;
  Tensor within_best_groups(const Tensor& ranking) const;
};

/// A mixture of experts, SwiGLU (Mixtral, Qwen3-MoE) or without a gate (Nemotron H): the outputs of those
/// that the router chooses, weighed. Tokens are sorted by expert, so that each expert that is chosen runs
/// once, on its own tokens. Llama 4 weighs what experts read, not what they give. Latent experts (Nemotron 3)
/// work on narrower rows than the router and the shared expert.
struct MoeMlp {
  MoeMlp(const ParamSource& source, const LanguageConfig& config);
  /// x: [batch, sequence, hidden]. Fills `load` unless it is null. The router reads `judged`, where that is
  /// not x.
  Tensor operator()(const Tensor& x, RouterLoad* load = nullptr, const Tensor& judged = {}) const;
  void visit(ParamVisitor& v);
  /// Ranks share the experts out: this one keeps its own, and the rows of tokens go to them. `by_rank`: an
  /// expert reads the rows of one rank after those of another, so that what comes out, and its gradients,
  /// have the bits of one process that runs the ranks' batches one by one.
  void share_out(const std::shared_ptr<const ExpertRanks>& ranks, bool by_rank = false);
  /// The layers of the experts: up to three.
  std::vector<ExpertLinear*> stacks();

  Router router;
  std::unique_ptr<ExpertLinear> gate_proj;  ///< [experts, intermediate, hidden]; null in experts without one
  ExpertLinear up_proj, down_proj;          ///< [experts, intermediate, hidden], down: [experts, hidden, ...]
  std::unique_ptr<Linear> to_latent, from_latent;  ///< around latent experts, whose hidden is the latent size
  std::unique_ptr<SharedExpert> shared_expert;     ///< where the family has one
  std::unique_ptr<Linear> shared_expert_gate;      ///< [1, hidden]: what its output is weighed by
  std::int64_t count;                              ///< experts
  double limit, alpha;                             ///< of gpt-oss' SwiGLU; limit 0: the plain one
  MlpKind kind;
  bool weighs_inputs;
  std::int64_t chunk = 0;                           ///< tokens that go through the experts at a time; 0: all
  WeightSplit split;                                ///< of what all experts add together
  std::shared_ptr<const ExpertRanks> expert_ranks;  ///< null: all experts are here
  bool by_rank = false;                             ///< of share_out()

 private:
  /// What their experts and the shared one give for `tokens`, [tokens, hidden], together. `weights` are the
  /// router's; its scores where they weigh inputs.
  Tensor mixed(const Tensor& tokens, const ExpertRouting& routing, const Tensor& weights) const;
  /// x: rows sorted by expert, [pairs, width]. Gives as many.
  Tensor outputs(const Tensor& x, const ExpertRouting& routing) const;
  /// x: rows for this rank's experts, sorted by rank. `own`: of each rank. Gives as many.
  Tensor one_by_one(const Tensor& x, std::span<const ExpertRouting> own) const;
  /// x: rows sorted by expert, [pairs, hidden]. Gives [pairs, intermediate].
  Tensor activated(const Tensor& x, const ExpertRouting& routing) const;
};

}  // namespace ingot
