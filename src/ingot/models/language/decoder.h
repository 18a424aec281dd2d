#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ingot/models/architecture_check.h"
#include "ingot/models/language/altup.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder_attention.h"
#include "ingot/models/language/delta_net.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/models/language/layer_inputs.h"
#include "ingot/models/language/mamba.h"
#include "ingot/models/language/moe.h"
#include "ingot/models/language/pass_leader.h"
#include "ingot/models/language/recompute.h"
#include "ingot/models/language/short_conv.h"
#include "ingot/models/rope_tables.h"
#include "ingot/nn/embedding.h"
#include "ingot/nn/feed_forward.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/projection_group.h"
#include "ingot/nn/visit.h"
#include "ingot/nn/weight_lease.h"
#include "ingot/nn/xielu.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/norm.h"

namespace ingot {

/// What layers hand on. The last summand is added by the next norm, in the pass over the rows that it makes
/// anyway.
struct ResidualStream {
  Tensor sum;     ///< [batch, sequence, hidden]; or all streams (Streams)
  Tensor update;  ///< still to be added; undefined: nothing
  /// Both added.
  Tensor value() const { return update.defined() ? sum + update : sum; }
};

/// RMSNorm or LayerNorm, as the family has it.
struct DecoderNorm {
  DecoderNorm(const ParamSource& source, const LanguageConfig& config, bool absent = false);
  Tensor operator()(const Tensor& x) const;
  /// Adds x's update to its sum, and gives the norm of that: both when the norm is read, which must be before
  /// x or this goes.
  LinearInput operator()(ResidualStream& x) const;
  /// sum + update, written to `to` where that is defined, and the norm of that.
  NormedSum add(const Tensor& sum, const Tensor& update, const Tensor& to) const;
  void visit(ParamVisitor& v);

  Parameter weight, bias;  // no bias: RMSNorm, or LayerNorm without it
  NormKind kind;
  float eps, weight_offset;
  bool absent = false;  // what it reads is what it gives: the last one, where there is none

 private:
  Tensor layer_weight() const;  // what a LayerNorm multiplies with
};

struct Mlp {
  Mlp(const ParamSource& source, const LanguageConfig& config, std::int64_t layer);
  /// x: [batch, sequence, hidden].
  Tensor operator()(const LinearInput& x) const;
  void visit(ParamVisitor& v);

  ProjectionGroup in_proj;  // gate_proj and up_proj, or up_proj alone
  Linear down_proj;
  std::unique_ptr<Xielu> act_fn;  // of MlpKind::xielu
  MlpKind kind;
  double gate_multiplier, down_multiplier;  // 1: none
  std::optional<double> cutoff;             // in deviations from the mean: gates below it are 0
  std::int64_t chunk = 0;                   // rows that go through it at a time (checkpoint_rows); 0: all

 private:
  Tensor whole(const LinearInput& x) const;
};

/// What is around experts that stand beside an MLP (Gemma 4): norms behind the MLP, before the experts and
/// behind them.
struct ExpertNorms {
  ExpertNorms(const ParamSource& source, const LanguageConfig& config);
  void visit(ParamVisitor& v);
  DecoderNorm post_feedforward_layernorm_1, pre_feedforward_layernorm_2, post_feedforward_layernorm_2;
};

struct DecoderLayer {
  DecoderLayer(const ParamSource& source, const LanguageConfig& config, std::int64_t index);
  /// Fills `load` where the layer is sparse and `load` is not null.
  void operator()(ResidualStream& x, const DecoderContext& context, std::int64_t layer,
                  RouterLoad* load = nullptr) const;
  void visit(ParamVisitor& v);
  /// The matrix that ends what mixes the tokens; of an MLP alone its down_proj, of experts alone their gate.
  const LinearWeight& mixer_output() const;

  std::unique_ptr<DecoderNorm> input_layernorm;  // before attention, or of its sum; null: NormPlacement::post
  std::unique_ptr<Attention> self_attn;          // with mamba beside it, or instead one of:
  std::unique_ptr<ShortConv> conv;
  std::unique_ptr<Mamba> mamba;
  std::unique_ptr<DeltaNet> linear_attn;
  /// Before the MLP; behind attention where there are norms behind it. Null: NormPlacement::parallel, or no
  /// MLP.
  std::unique_ptr<DecoderNorm> post_attention_layernorm;
  std::unique_ptr<DecoderNorm> pre_feedforward_layernorm, post_feedforward_layernorm;
  std::unique_ptr<Mlp> mlp;
  std::unique_ptr<MoeMlp> experts;  // instead of the MLP where the layer is sparse; or there is neither
  std::unique_ptr<ExpertNorms> expert_norms;  // where there are both
  std::unique_ptr<AltUp> altup;               // families of several streams, with laurel
  std::unique_ptr<Laurel> laurel;
  std::unique_ptr<LayerInputGate> layer_input_gate;  // families whose layers have inputs of their own
  Parameter layer_scalar;                            // [1], not trained: of what the layer gives

 private:
  void norms_of_sums(ResidualStream& x, const DecoderContext& context, std::int64_t layer) const;
  void one_after_another(ResidualStream& x, const DecoderContext& context, std::int64_t layer,
                         RouterLoad* load) const;
  void side_by_side(ResidualStream& x, const DecoderContext& context, std::int64_t layer,
                    RouterLoad* load) const;
  void mlp_alone(ResidualStream& x, const DecoderContext& context, RouterLoad* load) const;
  void among_streams(ResidualStream& x, const DecoderContext& context, std::int64_t layer) const;
  Tensor mlp_and_experts(ResidualStream& x, RouterLoad* load) const;
  // What the layer adds at its end: its own input, and its factor.
  void finish(ResidualStream& x, const DecoderContext& context) const;
  // Attention, or what the layer has instead of it or beside it. Undefined where no row is wanted.
  Tensor mix(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const;
  // The MLP, or the experts.
  Tensor feed_forward(const LinearInput& x, RouterLoad* load) const;
  // What a block adds to the residual stream.
  Tensor scaled(Tensor update) const;

  NormPlacement placement_;
  double residual_multiplier_, attention_in_, attention_out_, ssm_out_;
};

struct DecoderInput {
  Tensor tokens;     ///< i64 or i32 [batch, sequence]
  Tensor positions;  ///< i64 or i32 [batch, sequence]; undefined: 0, 1, 2, ... (after what the cache holds)
  Tensor doc_start;  ///< i32 [batch, sequence]; undefined: one document per row
  /// One more than the largest position, which scalings of RoPE that depend on the length need; 0: read from
  /// `positions`, which waits for the device.
  std::int64_t length = 0;
};

struct LossOptions {
  /// What the summed loss is divided by, one f32 on the model's device; undefined: the number of targets
  /// here. A trainer gives the count of the whole optimizer step, so that micro-batches of unequal length
  /// weigh as one batch would.
  Tensor denominator = {};
  float z_loss = 0;           ///< weight of log²(Σ exp(logits))
  float router_aux_loss = 0;  ///< weight of load_balancing_loss, where there are experts
  float router_z_loss = 0;    ///< weight of router_z_loss
  /// What these two are multiplied with besides, one f32 on the model's device; undefined: 1. A trainer gives
  /// the share of the optimizer step's targets that are in this batch.
  Tensor router_share = {};

  bool asks_routers() const { return router_aux_loss > 0 || router_z_loss > 0; }
};

/// `loss` and what LossOptions ask of routers, over so many tokens; `loss` where `loads` are none.
Tensor with_router_losses(const Tensor& loss, std::span<const RouterLoad> loads, std::int64_t tokens,
                          const LossOptions& options);

class RouterStatistics;     // models/language/router_statistics.h
class TensorParallelSplit;  // models/language/tensor_parallel.h

/// A decoder-only transformer of any family in families/: tokens in, logits of the next token out. Parameter
/// names are Llama's in Hugging Face's checkpoints; weight_map.h tells the other families'.
struct LanguageModel {
  using Config = LanguageConfig;

  LanguageModel(LanguageConfig config, const ParamSource& source);

  static WeightMap weight_map(const LanguageConfig& config);
  /// Whether a checkpoint holds this model, with everything that does not fit; reads no tensor.
  static ArchitectureReport architecture_check(const LanguageConfig& config, const WeightSource& weights);
  /// Checks, then loads. Throws Error that lists every missing, unexpected and mis-shaped tensor.
  static std::unique_ptr<LanguageModel> from_weights(const LanguageConfig& config,
                                                     const WeightSource& weights,
                                                     const LoadOptions& options = {});

  /// Where the parameters are, and inputs have to be.
  Device device() const { return head().device(); }
  /// The tables for sequences up to `length`, as hidden() would make them: a handle that keeps them alive,
  /// for captured graphs that read them. Empty where the family has no RoPE.
  RopeTables rope_tables(std::int64_t length) const;

  /// Hidden states after the last norm: [batch, sequence, hidden]. `loads` gets one entry for each layer with
  /// experts, unless it is null.
  Tensor hidden(const DecoderInput& input, std::vector<RouterLoad>* loads = nullptr) const;
  /// The same for the next tokens of sequences whose past is cached, and which are cached too: tokens
  /// [1, sequence] hold those of the first segment, then those of the second, ... Positions follow from the
  /// caches. Gives [1, wanted, hidden], the wanted rows of each segment; the last layer attends, multiplies
  /// and normalizes for no others. Needs NoGrad. Throws DimensionMismatch when a sequence outgrows its cache
  /// or the model's positions, or a segment wants what is not there.
  Tensor hidden(const Tensor& tokens, std::span<const CacheSegment> segments) const;
  /// The same where the device says what the caches hold, for work that is captured and repeated: the numbers
  /// of `offsets` count, the caches' own lengths do not, and stay. Every segment attends to the whole
  /// capacity of its cache, of which `offsets` leaves valid what it says. All tokens are wanted.
  Tensor hidden(const Tensor& tokens, std::span<const CacheSegment> segments,
                const CacheOffsets& offsets) const;
  /// What logits are made with: lm_head, or the embeddings where they are tied.
  const LinearWeight& head() const { return lm_head != nullptr ? *lm_head : embed_tokens.weight; }
  /// What the head's matrix is multiplied with, for losses that make logits themselves: [..., hidden], with a
  /// column of ones behind it where the head has a bias.
  Tensor head_input(const Tensor& hidden) const;
  /// The head's matrix in `dtype`, its bias as a column behind it: [vocab, hidden (+ 1)].
  Tensor head_matrix(DType dtype) const;
  /// [..., hidden] -> [..., vocab].
  Tensor logits(const Tensor& hidden) const;
  /// Cross-entropy of `targets` (i64 or i32 [batch, sequence]; -100 is none), without ever holding all
  /// logits, and what LossOptions add. Scalar.
  Tensor loss(const DecoderInput& input, const Tensor& targets, const LossOptions& options = {}) const;
  void visit(ParamVisitor& v);
  /// This model is one rank's part of a whole one: ALiBi's slopes are those of its heads.
  void set_part(std::shared_ptr<const TensorParallelSplit> of);
  /// So many tokens go through each MLP and its experts at a time, as checkpoint_rows() has it; 0: all.
  void set_mlp_chunk(std::int64_t tokens);

  LanguageConfig config;
  Recompute recompute = Recompute::none;  ///< in backward passes
  WeightLease* lease = nullptr;           ///< of the layers' weights; null: they are in memory
  std::shared_ptr<PassLeader> leader{};   ///< is told of passes with caches, and of logits; null: nobody is
  std::shared_ptr<const TensorParallelSplit> part{};  ///< of the model that ranks have; null: it is whole
  CheckpointStore* layer_inputs = nullptr;        ///< keeps them for Recompute::full; null: in their memory
  RouterStatistics* router_statistics = nullptr;  ///< gets what routers do in passes with gradients; or null
  /// What activations are computed in; unset: what the norms' parameters are in, or else the embeddings.
  std::optional<DType> activation_dtype;
  Embedding embed_tokens;
  std::unique_ptr<Embedding> embed_positions;       // families with learned positions
  std::unique_ptr<DecoderNorm> embed_layernorm;     // families that normalize embeddings
  std::unique_ptr<Linear> project_in, project_out;  // where embeddings are narrower than layers
  std::unique_ptr<Streams> streams;                 // families of several streams
  std::unique_ptr<LayerInputs> per_layer_inputs;    // families whose layers have inputs of their own
  std::vector<std::unique_ptr<DecoderLayer>> layers;
  DecoderNorm norm;
  std::unique_ptr<LinearWeight> lm_head;  // null when tied to embed_tokens
  Parameter head_bias;                    // [vocab], where the family has one

 private:
  DType dtype_of_activations(DType embeddings) const;
  Tensor embed(const Tensor& tokens, const Tensor& positions) const;
  Tensor before_head(const Tensor& hidden) const;  // as wide as the head's rows, times logit_scale
  Tensor query_scale(const Tensor& positions) const;
  Tensor run_layers(const Tensor& tokens, DecoderContext context, std::int64_t end,
                    std::vector<RouterLoad>* loads = nullptr) const;
  void run_layer(std::size_t i, ResidualStream& x, const DecoderContext& context, RouterLoad* load) const;
  void run_layer_again(std::size_t i, ResidualStream& x, const DecoderContext& context,
                       RouterLoad* load) const;
  mutable RopeTables rope_;  // grown on demand
  Tensor alibi_;             // alibi_query_columns(), where the family has them
};

}  // namespace ingot
