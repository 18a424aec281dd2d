#pragma once

#include <cstdint>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/models/language/config.h"

namespace ingot {

/// What the layers of one sequence that are not attention keep of its past: of a causal convolution the steps
/// before the next one, of a selective scan or the gated delta rule its state. It has a fixed size, whatever
/// the sequence's length. The last kRollback tokens can be taken back, where that is all; else only
/// everything.
class RecurrentState {
 public:
  /// Tokens of a speculative step, all of whose drafts may be rejected.
  static constexpr std::int64_t kRollback = 8;

  /// Of a model without such layers it holds nothing.
  RecurrentState(const LanguageConfig& config, Device device);

  /// The steps that a layer's convolution sees of the past, behind `length` tokens: f32 [1, conv_L_cache − 1,
  /// channels], zeros before the first token.
  Tensor past(std::int64_t layer, std::int64_t length) const;
  /// Writes steps [new, channels] of a layer behind `length` tokens; advance() once all layers have written.
  void append(std::int64_t layer, std::int64_t length, const Tensor& steps);
  void advance(std::int64_t length, std::int64_t tokens) {
    between_layers_ = false;
    first_ = first_after(length, tokens);
    length_ = length + tokens;
  }
  /// The state of a layer that scans, f32 [1, heads, size, width], of the tokens so far: whoever scans on
  /// changes it.
  const Tensor& scan(std::int64_t layer) {
    between_layers_ = true;
    return scans_[static_cast<std::size_t>(layer)];
  }
  /// Whether the state behind `tokens` of `length` tokens is still known. It is not after a pass that ended
  /// between two layers.
  bool reaches(std::int64_t tokens) const {
    if (between_layers_) return false;
    return layers_.empty() || (scans_.empty() ? tokens >= first_ : tokens == length_);
  }
  /// Back to no tokens.
  void reset();
  /// Takes the state of another cache of the same model.
  void copy(const RecurrentState& from);
  std::size_t nbytes() const;

 private:
  std::int64_t first_after(std::int64_t length, std::int64_t tokens) const;

  // f32 [rows, channels] of each layer that convolves, else undefined: `seen_` steps before token first_,
  // then those from it on. Rows are moved to the front where there is no memory behind.
  std::vector<Tensor> layers_;
  std::vector<Tensor> scans_;  // empty: no layer scans
  std::int64_t seen_, rows_, first_ = 0, length_ = 0;
  bool between_layers_ = false;  // some layers have taken the tokens of a pass, others not yet
};

}  // namespace ingot
