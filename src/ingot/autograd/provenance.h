#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/base/scope.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// What the values of a floating-point tensor span.
struct ValueRange {
  double least = 0, largest = 0;  ///< of the finite ones; of none: 0
  std::int64_t not_finite = 0, elements = 0;
};
/// Waits for the device. Elements of other dtypes: an empty range.
ValueRange value_range(const Tensor& tensor);

/// Where a tensor came from.
struct Origin {
  std::string op;                        ///< "rms_norm", "rms_norm (backward)"; empty: a leaf
  std::string module;                    ///< full name; empty outside of any
  std::int64_t step = Scope::kNoNumber;  ///< of the training run
  Shape shape;
  DType dtype = DType::f32;
  std::optional<ValueRange> values;  ///< where they were asked for
  /// Of the op's operands, in its order; null where nobody recorded it (a parameter, a batch, an absent one).
  std::vector<std::shared_ptr<const Origin>> inputs;
  std::int64_t number = 0;  ///< counts up with each that is recorded; 0: it was not
};

/// What anomaly detection throws.
class AnomalyFound : public NonFinite {
 public:
  AnomalyFound(const std::string& where, const std::string& problem, std::shared_ptr<const Origin> origin)
      : NonFinite(where, problem), problem(problem), origin(std::move(origin)) {}
  std::string problem;
  /// Of the tensor that is not finite, with the values of it and of its inputs; those that no op made are
  /// there, too.
  std::shared_ptr<const Origin> origin;
};

/// Records, while alive, where the results of every op come from, on all threads. Modules and steps are known
/// by their scopes. An op costs about a microsecond more; with `values`, a pass over its result besides.
///
///     const RecordOrigins record;
///     const Tensor loss = model.loss(input, targets);
///     fmt::print("{}\n", describe(*origin_of(loss)));
class RecordOrigins {
 public:
  explicit RecordOrigins(bool values = false);
  ~RecordOrigins();
  RecordOrigins(const RecordOrigins&) = delete;
  RecordOrigins& operator=(const RecordOrigins&) = delete;

 private:
  ScopeWatch watch_;
  bool values_;
};

/// Keeps, while alive, the origins of all results, gradients too, in the order in which they were made, with
/// values; operands that no op made are leaves among their inputs. Each costs a pass over the result. One at
/// a time in a process.
class ListOrigins {
 public:
  ListOrigins();
  ~ListOrigins();
  ListOrigins(const ListOrigins&) = delete;
  ListOrigins& operator=(const ListOrigins&) = delete;
  /// Those so far; the list is empty then.
  std::vector<std::shared_ptr<const Origin>> take();

 private:
  RecordOrigins record_{true};
};

/// Null where nobody recorded it, or the tensor was not made by an op.
std::shared_ptr<const Origin> origin_of(const Tensor& tensor);

/// Lines that tell how the tensor came about, `depth` ops up:
///     linear in model.layers.1.mlp.down_proj, step 7: f32[2,64], -1.5 to 3.2
///       silu_mul in model.layers.1.mlp: f32[2,96], ...
std::string describe(const Origin& origin, int depth = 3);
/// "-1.5 to 3.2, 2 of 128 not finite"
std::string describe(const ValueRange& range);

}  // namespace ingot
