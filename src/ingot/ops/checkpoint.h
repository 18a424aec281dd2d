#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Where inputs of checkpoint() are kept from the forward to the backward pass, instead of in their own
/// memory. Backward passes ask for them in the opposite order.
class CheckpointStore {
 public:
  class Held {
   public:
    virtual ~Held() = default;
    /// The values, on the input's device, for work that comes behind in the current stream. They may go with
    /// this object.
    virtual Tensor get() = 0;
  };
  virtual ~CheckpointStore() = default;
  /// Keeps the values of a contiguous tensor, as they are at this point of the current stream.
  virtual std::shared_ptr<Held> put(const Tensor& input) = 0;
};

/// function(input) without keeping what it computes inside: the backward pass runs it once more to get that
/// back (Chen et al. 2016, "Training deep nets with sublinear memory cost"). Memory falls to the input and
/// the output, time grows by one forward pass. Random numbers are the same both times, so results equal those
/// of a plain call bit for bit. Parameters that `function` uses get their gradients as usual, whether the
/// input needs one or not; other tensors that it captures do not.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& input);
/// The same for a function of several inputs and results. The first input is kept in `store` where that is
/// not null, the others in their own memory.
std::vector<Tensor> checkpoint(const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function,
                               std::span<const Tensor> inputs, CheckpointStore* store = nullptr);

/// checkpoint() of a function that treats the rows of x [..., in] one by one: it is called with so many at a
/// time, [count, in], and gives [count, out]; all results together are [..., out]. What it computes inside is
/// there for these rows only, in the forward and in the backward pass (Bekman et al. 2025, "Arctic Long
/// Sequence Training", tiled MLP). Gradients of parameters are added up over the calls, in the order of the
/// rows, so they are rounded otherwise than those of one call.
Tensor checkpoint_rows(const std::function<Tensor(const Tensor&)>& function, const Tensor& x,
                       std::int64_t rows);
/// The same for a function of several inputs with as many rows, of which it gets the same ones at a time;
/// results are [..., out] of the first input's shape. Whole numbers get no gradient.
Tensor checkpoint_rows(const std::function<Tensor(std::span<const Tensor>)>& function,
                       std::span<const Tensor> inputs, std::int64_t rows);

}  // namespace ingot
