#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/nn/init.h"
#include "ingot/nn/parameter.h"
#include "ingot/nn/rank_group.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot {

/// What a module knows of a parameter that it asks for. `name` is full.
struct ParamRequest {
  std::string name;
  Shape shape;
  Init init;
  std::optional<DType> dtype = {};  ///< whatever the model's is
};

/// Rows (axis 0) or columns (axis 1) [begin, end) of a matrix; axis -1: all of it.
struct MatrixPart {
  int axis = -1;
  std::int64_t begin = 0, end = 0;
};

/// Where parameters come from: an initializer, a checkpoint.
class ParamProvider {
 public:
  virtual ~ParamProvider() = default;
  /// A contiguous tensor of the shape asked for.
  virtual Tensor provide(const ParamRequest& request) = 0;
  /// The weight of a linear layer in tiles, where this provider has it quantized; null: ask provide().
  virtual quant::PackedPtr provide_quantized(const std::string& name, const Shape& shape);
  /// The same for a stack of matrices [count, out, in] (experts): all of them, or none.
  virtual std::vector<quant::PackedPtr> provide_quantized_stack(const std::string& name, const Shape& shape);
  /// A part of the same, and of each of a stack, with the whole's values: one rank's. Cuts the whole one
  /// where a provider has no quicker way. InvalidConfig where it cannot be cut there.
  virtual quant::PackedPtr provide_quantized_part(const std::string& name, const Shape& whole,
                                                  const MatrixPart& part);
  virtual std::vector<quant::PackedPtr> provide_quantized_stack_part(const std::string& name,
                                                                     const Shape& whole,
                                                                     const MatrixPart& part);
  /// Columns at whose multiples a matrix, or a stack of them, can be split among ranks: 1 where it is dense.
  virtual std::int64_t column_unit(const std::string& name, const Shape& shape);
  /// How results of a weight become whole, where ranks have it together (nn/split_source.h).
  virtual WeightSplit split(const std::string& name);
  /// Whether parameters start as trainable.
  virtual bool trainable() const { return true; }
};

/// Extra wishes of a module for one parameter.
struct ParamOptions {
  std::optional<bool> decay;        ///< default: what has two axes or more decays
  bool trainable = true;            ///< false for buffers, such as running statistics
  std::optional<DType> dtype = {};  ///< where a model in fewer bits must not round it; default: the model's
};

/// What a module's constructor takes its parameters from: a provider and the path of the module. One
/// constructor serves training from scratch and loading:
///
///     Mlp(const ParamSource& source, const MlpConfig& c)
///         : up(source.scope("up_proj"), {.in = c.width, .out = c.hidden}),
///           scale(source.take("scale", {c.width}, init::kOnes)) {}
///
///     InitSource init(seed);         Mlp fresh(init, config);
///     TensorMapSource file(tensors); Mlp loaded(file, config); file.finish();
class ParamSource {
 public:
  ParamSource(ParamProvider& provider, std::string prefix = {})  // NOLINT: a provider is the outermost source
      : provider_(&provider), prefix_(std::move(prefix)) {}

  /// The same provider with "`name`." put before the names taken from it; an empty name changes nothing.
  ParamSource scope(std::string_view name) const;
  ParamSource scope(std::string_view name, std::int64_t index) const;
  /// The parameter `name` of this module. Throws ShapeMismatch when a provider breaks its promise.
  Parameter take(std::string_view name, const Shape& shape, const Init& init,
                 const ParamOptions& options = {}) const;
  /// The matrix `name` [out, in] in tiles, or null where the provider has it dense: then take() it. Throws
  /// ShapeMismatch.
  quant::PackedPtr take_quantized(std::string_view name, const Shape& shape) const;
  /// The same for a stack [count, out, in]; empty where the provider has it dense.
  std::vector<quant::PackedPtr> take_quantized_stack(std::string_view name, const Shape& shape) const;
  WeightSplit split(std::string_view name) const { return provider_->split(prefix_ + std::string(name)); }
  const std::string& prefix() const { return prefix_; }

 private:
  ParamProvider* provider_;
  std::string prefix_;  // "layers.0." or empty
};

/// The random stream of a parameter: a function of seed and full name, so that a parameter more or less
/// changes no other's values.
RngKey parameter_stream(std::uint64_t seed, std::string_view name);

/// Fresh parameters.
class InitSource final : public ParamProvider {
 public:
  explicit InitSource(std::uint64_t seed, DType dtype = DType::f32, Device device = kCpu);
  Tensor provide(const ParamRequest& request) override;

 private:
  std::uint64_t seed_;
  DType dtype_;
  Device device_;
};

/// Shapes without values, on kMeta: of a dry run (kernels/dry_run.h).
class MetaSource final : public ParamProvider {
 public:
  explicit MetaSource(DType dtype) : dtype_(dtype) {}
  Tensor provide(const ParamRequest& request) override;

 private:
  DType dtype_;
};

/// Appends "what (count):" and up to 20 indented lines to an error's message; nothing where there are none.
void append_list(std::string& message, std::string_view what, const std::vector<std::string>& lines);

/// Where packed matrices are kept from one run to the next.
class PackedStore {
 public:
  virtual ~PackedStore() = default;
  /// Null where there is none of this name.
  virtual quant::PackedPtr find(const std::string& name) const = 0;
  /// Returns what to use in its place: the same values, whose memory the store may have moved.
  virtual quant::PackedPtr add(const std::string& name, quant::PackedPtr matrix) = 0;
};

/// How a checkpoint's tensors become parameters.
struct LoadOptions {
  std::optional<DType> dtype;  ///< default: as stored
  Device device = kCpu;
  bool copy = true;  ///< false: share memory where dtype and device allow; for inference on a mapped file
  bool trainable = true;  ///< false: no parameter asks for gradients
  /// Parameters of one axis (norms, biases) become f32: for inference, where activations are f32 and matrices
  /// keep the dtype that they are stored in.
  bool wide_vectors = false;
  /// Linear layers and embeddings are rounded to this quantized format ("q4_k"); empty: they are what the
  /// file holds.
  std::string format{};
  bool keep_quantized = false;           ///< quantized matrices stay in their format; false: values
  std::shared_ptr<PackedStore> store{};  ///< asked for packed matrices first; null: none
  /// Of a language model for inference: the ranks that have it together. Null: it is here alone.
  std::shared_ptr<const RankGroup> ranks{};
};

/// Parameters from named tensors. A missing or mis-shaped tensor does not stop construction: finish() lists
/// them all at once, with the unexpected ones.
class TensorMapSource final : public ParamProvider {
 public:
  /// `origin` names the checkpoint in messages (a path).
  explicit TensorMapSource(std::map<std::string, Tensor> tensors, LoadOptions options = {},
                           std::string origin = "the checkpoint");
  Tensor provide(const ParamRequest& request) override;
  bool trainable() const override { return options_.trainable; }

  /// Call once the model stands; it must not be used when this throws (Error, listing every problem). Tensors
  /// that nobody took are a problem too, unless their names match one of the globs ("*.rotary_emb.inv_freq").
  void finish(const std::vector<std::string>& ignore_unexpected = {}) const;

 private:
  std::map<std::string, Tensor> tensors_;
  LoadOptions options_;
  std::string origin_;
  std::set<std::string> taken_;
  std::vector<std::string> missing_, misshaped_;
};

}  // namespace ingot
