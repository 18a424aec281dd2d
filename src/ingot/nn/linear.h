#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/quant/linear.h"

namespace ingot {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  std::optional<Init> weight_init = std::nullopt;  ///< default, as PyTorch's: uniform in +-1/sqrt(in)
  std::optional<Init> bias_init = std::nullopt;    ///< default, as PyTorch's: uniform in +-1/sqrt(in)
  void validate() const;
};

/// y = x weight^T + bias: [..., in] -> [..., out]. Parameters: weight [out, in], bias [out]. A source of
/// quantised weights gives `packed` in the weight's place; the module then serves inference only.
struct Linear {
  Linear(const ParamSource& source, const LinearOptions& options);
  Tensor operator()(const Tensor& x) const;
  /// The same for an input that several modules share, so that it is rounded once for all of them.
  Tensor operator()(const quant::Activations& x) const;
  void visit(ParamVisitor& v);

  quant::PackedPtr packed;  ///< null: `weight` is there
  Parameter weight, bias;
};

/// What several layers of one input give, [..., out] each; by all threads in one go where all are packed,
/// and as linear() of several where none is.
std::vector<Tensor> linear_each(const quant::Activations& x, std::initializer_list<const Linear*> layers);
/// The same side by side in one tensor, as linear_side_by_side(); no layer is packed.
Tensor linear_side_by_side(const Tensor& x, std::initializer_list<const Linear*> layers);
/// Puts the weights of layers of one input, and their biases, one behind another in memory, so that products
/// and gradients of all are one; copies them. Nothing happens to layers that are packed or not to be trained
/// (their weights may be a file's memory), or differ in what they have.
void lay_side_by_side(std::initializer_list<Linear*> layers);
/// Whether layers that were laid so are to be multiplied so: what they do next is recorded for a backward
/// pass, now or when it is run once more, and their weights lie one behind another.
bool train_as_one(std::initializer_list<const Linear*> layers);
/// How their input of so many rows is to be rounded: as each of them wants it; not ahead of them where they
/// differ, or where gradients are recorded.
quant::Rounding common_rounding(std::initializer_list<const Linear*> layers, std::int64_t rows);

/// Whether its product rounds its input to eight bits, so that what led there may be rounded to more.
bool rounds_input(const Linear& layer);

/// f(xs) as the input of products that round it so. xs: f32, one shape [..., in]; f treats their rows one by
/// one. Many rows are made and rounded some at a time, while they are in cache; f then runs on several
/// threads, without gradients, on xs of [rows, in].
quant::Activations apply_by_rows(std::initializer_list<Tensor> xs, quant::Rounding rounding,
                                 FunctionRef<Tensor(std::span<const Tensor>)> f);

}  // namespace ingot
