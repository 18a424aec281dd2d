#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/nn/param_source.h"

namespace ingot {

struct LinearWeight;
struct LowRankAdapter;

/// The lengths of the rows of W + scale·B·A, kept until one of the three changes.
class RowNorms {
 public:
  /// f32 [out], without gradients; made from some rows at a time, so that a quantized W is never there whole.
  Tensor of(const LinearWeight& weight, const LowRankAdapter& adapter);

 private:
  struct Seen {
    std::weak_ptr<Storage> storage;
    std::uint32_t version;
  };
  bool is_current(const std::vector<Tensor>& parts) const;

  std::mutex mutex_;
  std::vector<Seen> seen_;
  Tensor norms_;
};

/// Which rows of its input the pairs of one adapter are applied to, where sequences of several adapters go
/// through a model together. The pairs share it, so that one write switches all of them. A model's last layer
/// and its head see the wanted rows alone (CacheSegment::wanted), so that it knows both, by their number.
class AdapterRows {
 public:
  struct Range {
    std::int64_t begin = 0, count = 0;
  };
  /// The adapter's rows among so many.
  struct Share {
    std::int64_t total = 0;
    Range own{};
  };
  bool is_whole() const { return whole_; }
  bool any() const { return whole_ || all_.own.count > 0; }
  void set_none() { *this = {}; }
  void set_whole() { *this = {}, whole_ = true; }
  void set(const Share& all, const Share& wanted) { *this = {}, all_ = all, wanted_ = wanted; }
  /// Those of an input of so many rows. Error where it is neither all rows nor the wanted ones.
  Range of(std::int64_t rows) const;

 private:
  bool whole_ = false;  // every row, whatever their number
  Share all_, wanted_;
};

/// A low-rank update of a weight W [out, in], or of each of a stack of them [experts, out, in]: scale · B·A
/// (LoRA, Hu et al. 2021). With a magnitude m it is
/// weight-decomposed (DoRA, Liu et al. 2024): the weight becomes (W + scale · B·A) · m / ‖W + scale · B·A‖,
/// row by row, where the lengths count as constants in the backward pass. `name` tells the adapters of one
/// weight apart.
struct LowRankAdapter {
  /// Takes "<name>.lora_A" and "<name>.lora_B" from the source, for a weight of this shape. As PyTorch and
  /// PEFT start them: A uniform in ±1/√in, B zero, so that a fresh adapter changes nothing. Throws
  /// InvalidConfig unless rank > 0.
  LowRankAdapter(const ParamSource& source, std::string name, const Shape& weight, std::int64_t rank,
                 float scale);

  /// Makes it weight-decomposed: m is `magnitude`, f32 [out], or where that is undefined the lengths of the
  /// rows as they are, which changes nothing. Throws ShapeMismatch, and NotImplemented for an embedding.
  void decompose(const LinearWeight& weight, const Tensor& magnitude = {});
  /// m / ‖W + scale · B·A‖, f32 [out]; its gradient reaches m.
  Tensor row_gain(const LinearWeight& weight) const;

  std::string name;
  Parameter a;          ///< [rank, in], or [experts, rank, in]
  Parameter b;          ///< [out, rank], or [experts, out, rank]
  Parameter magnitude;  ///< [out], or absent, as it is for experts
  float scale;
  float weight = 1;  ///< what the whole update is multiplied with
  /// Not empty: rows of W that have a value of their own. A is by how much they differ from W's [tokens, in],
  /// B says which they are [out, tokens], and does not train; the scale is 1.
  std::vector<std::int64_t> tokens{};
  /// Share of its input that is dropped while gradients are recorded. Where a weight is read as a whole, or
  /// by rows, nothing is.
  double dropout = 0;
  bool enabled = true;
  std::shared_ptr<const AdapterRows> rows{};  ///< null: every row

  bool is_on() const { return enabled && (rows == nullptr || rows->any()); }
  /// Whether its input loses some of its elements here.
  bool drops() const;
  std::int64_t rank() const { return a.value.dim(-2); }

 private:
  mutable RowNorms norms_;
};

/// The adapters of one weight, or of one stack of experts.
using AdapterList = std::vector<std::unique_ptr<LowRankAdapter>>;
/// Null where there is none of this name.
LowRankAdapter* find_adapter(const AdapterList& list, std::string_view name);
/// Error where there is one of its name.
LowRankAdapter& add_adapter(AdapterList& list, std::unique_ptr<LowRankAdapter> adapter);

}  // namespace ingot
