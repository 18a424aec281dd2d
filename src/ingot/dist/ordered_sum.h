#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/dist/communicator.h"

// Tensors of a device go with the communicator for it (Communicator::of), or over the host's memory. The
// caller has waited for what made them; they are there when a call returns.
namespace ingot::dist {

/// [0, n) in as many slices of elements as there are ranks, as equal as whole vectors allow.
std::vector<Slice> equal_slices(std::size_t n, int ranks);

/// Puts the sum of every rank's `values`, contiguous [n] of one dtype, into this rank's slice of `total`, a
/// tensor [slices[rank].size()] of that dtype: added in the order of ranks and rounded to the dtype each
/// time, as one process does that adds one after the other. Ranks with contributes[rank] false are passed
/// over; the vector is the same on all ranks, and one of them contributes. With `add` the sum begins from
/// what `total` holds. Without, `total` may be the slice of `values` itself. The slices, in elements and by
/// rank, cover [0, n).
///
/// The bits do not depend on the slices. An all-to-all of the size of `values`, in pieces of
/// Communicator::message_bytes(), of which one takes memory at a time; where `total` is a slice of `values`
/// that is so, too.
void ordered_reduce_scatter(Communicator& communicator, const Tensor& values, std::span<const Slice> slices,
                            const std::vector<bool>& contributes, const Tensor& total, bool add);

/// The same in the order that the engine for that memory is fastest in, where it has such sums (NCCL); else
/// as above. Other bits than one process has. `values` are changed.
void fast_reduce_scatter(Communicator& communicator, const Tensor& values, std::span<const Slice> slices,
                         const std::vector<bool>& contributes, const Tensor& total, bool add);

/// Every rank's slice of `values`, contiguous [n], goes to all ranks.
void all_gather(Communicator& communicator, const Tensor& values, std::span<const Slice> slices);

/// Slice r of every rank's `values`, contiguous [n], goes to rank r: `received` gets those for this rank, in
/// the order of ranks.
void all_to_all(Communicator& communicator, const Tensor& values, std::span<const Slice> slices,
                const Tensor& received);

/// Sums in place of contiguous f32 values, in the order that is fastest.
void all_reduce(Communicator& communicator, const Tensor& values);

/// Elements of a contiguous tensor, as one axis.
Tensor slice_of(const Tensor& whole, const Slice& slice);

}  // namespace ingot::dist
