#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ingot/weights/weight_source.h"

namespace ingot::quant {
struct BlockFormat;
}  // namespace ingot::quant

namespace ingot {

struct GgmlType;

/// What is known of a tensor before its values are.
struct TensorForm {
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
};

/// One step on the way from a stored tensor to the one that is wanted. Negative axes count from the last.
class Transform {
 public:
  static Transform transpose(int a = -2, int b = -1);
  /// Axis i of the result is axis order[i].
  static Transform permute(std::vector<int> order);
  /// One size may be -1: what is left.
  static Transform reshape(std::vector<std::int64_t> shape);
  static Transform cast(DType dtype);
  /// factor * x + offset, for floating dtypes.
  static Transform scale(double factor, double offset = 0);
  /// −exp(x), and log(−x), for floating dtypes.
  static Transform negative_exp();
  static Transform log_of_negative();
  /// Row i of the first axis times factors[i], in f32.
  static Transform scale_rows(std::vector<double> factors);
  static Transform slice(int axis, std::int64_t begin, std::int64_t end);
  /// Element i of an axis is order[i] of the tensor's. Of tensors on the CPU.
  static Transform take(int axis, std::vector<std::int64_t> order);
  /// Element `index` of the first axis, which goes away.
  static Transform select(std::int64_t index);
  /// Part `index` of `parts` equal ones.
  static Transform part(int axis, std::int64_t index, std::int64_t parts);
  /// The output rows of a query or key projection (or its bias), head by head, from the order in which
  /// neighbours rotate together (llama.cpp's for Llama) to the one in which the halves of a head do
  /// (transformers'), and the other way about.
  static Transform rotary_to_halves(std::int64_t heads);
  static Transform rotary_to_pairs(std::int64_t heads);
  /// Rounds to a block format; only as the last step. The values that load are the rounded ones, as f32.
  /// `importance`: what errors in each column count, [cols], or of a stack [matrices, cols]; null: all the
  /// same.
  static Transform quantize(const quant::BlockFormat& format,
                            std::shared_ptr<const std::vector<float>> importance = nullptr);

  /// The form of the result. InvalidConfig, naming `tensor`, where the step does not fit.
  TensorForm infer(const TensorForm& form, const std::string& tensor) const;
  Tensor apply(const Tensor& x) const;
  /// Whether rows of the last axis of a tensor of this rank stay whole: then it works on rows of blocks as
  /// well as on numbers.
  bool keeps_rows(int rank) const;
  /// Whether it exchanges the axes of a matrix, and nothing else.
  bool transposes_matrix() const;
  bool is_cast() const { return std::holds_alternative<Cast>(step_); }
  /// Null but for quantize().
  const quant::BlockFormat* block_format() const;
  /// x rounded, as files hold it; of quantize() only.
  std::vector<std::byte> blocks_of(const Tensor& x) const;

 private:
  struct Permute {
    std::vector<int> order;  // empty: exchange a and b
    int a = 0, b = 0;
  };
  struct Reshape {
    std::vector<std::int64_t> shape;
  };
  struct Cast {
    DType dtype;
  };
  struct Scale {
    double factor, offset;
  };
  struct NegativeExp {
    bool inverse;
  };
  struct ScaleRows {
    std::vector<double> factors;
  };
  struct Take {
    int axis;
    std::vector<std::int64_t> order;
  };
  struct Slice {
    int axis;
    std::int64_t begin, end, parts;  // parts > 0: part `begin` of so many
  };
  struct Select {
    std::int64_t index;
  };
  struct Rotary {
    std::int64_t heads;
    bool to_halves;
  };
  struct Quantize {
    const quant::BlockFormat* format;
    std::shared_ptr<const std::vector<float>> importance;
  };
  using Step = std::variant<Permute, Reshape, Cast, Scale, NegativeExp, ScaleRows, Slice, Take, Select,
                            Rotary, Quantize>;
  explicit Transform(Step step) : step_(std::move(step)) {}

  TensorForm infer_permute(const Permute& step, TensorForm form, const std::string& tensor) const;
  TensorForm infer_reshape(const Reshape& step, TensorForm form, const std::string& tensor) const;
  TensorForm infer_take(const Take& step, TensorForm form, const std::string& tensor) const;
  TensorForm infer_slice(const Slice& step, TensorForm form, const std::string& tensor) const;

  Step step_;
};

/// How a tensor is made from those of another source.
struct TensorRecipe {
  std::string name;
  std::vector<std::string> inputs;  ///< several are put one after another along `concat_axis` first
  std::vector<Transform> steps;
  int concat_axis = 0;
  /// The steps make a stack of the inputs' matrices, transposed, whose rows before that take turns: a packed
  /// matrix of it is one of an input.
  bool stacks_in_turns = false;
  bool stacks_in_order = false;  ///< likewise, where the rows of the first input's come before the second's
};

/// The tensors of another source under other names and transformed, each when it is asked for: loading one
/// needs memory for that one and what it is made from. Sources like this may be put on top of one another.
class TransformedSource final : public WeightSource {
 public:
  /// Checks every recipe against the descriptions of `base`; InvalidConfig names the tensor that cannot be
  /// made. Tensors whose inputs have an element type without a dtype stay listed like those, if no step
  /// changes them.
  TransformedSource(std::shared_ptr<const WeightSource> base, std::vector<TensorRecipe> recipes);

  std::string_view format() const override { return base_->format(); }
  /// No alias is promised: what is transformed is made anew.
  WeightCapabilities capabilities() const override;
  void preload(std::span<const std::string> names) const override;
  const WeightSource& base() const { return *base_; }

 protected:
  Tensor load(const TensorInfo& info) const override;
  /// Blocks of a quantized type where every step keeps rows whole; else the bytes of the loaded tensor.
  Blob stored(const TensorInfo& info) const override;
  std::shared_ptr<const quant::PackedMatrix> packed(const TensorInfo& info,
                                                    const PackedPart& part) const override;

 private:
  TensorInfo describe(const TensorRecipe& recipe) const;
  void keep_ties(std::span<TensorInfo> tensors) const;
  bool stored_alike(const TensorRecipe& recipe) const;
  const TensorRecipe& recipe_of(const TensorInfo& info) const;
  Tensor transformed(const TensorRecipe& recipe, std::span<const Transform> steps) const;
  Tensor transformed_rows(const TensorRecipe& recipe, const GgmlType& type) const;

  std::shared_ptr<const WeightSource> base_;
  std::vector<TensorRecipe> recipes_;  // sorted by name
};

/// Every tensor of a source as it is: to be edited before it is given to a TransformedSource.
std::vector<TensorRecipe> identity_recipes(const WeightSource& source);

}  // namespace ingot
