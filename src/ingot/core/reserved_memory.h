#pragma once

#include <cstddef>

#include "ingot/core/tensor.h"

namespace ingot {

/// Bytes that memory of reserve_tensor() is taken and given back in.
std::size_t page_bytes();

/// A tensor whose address space is reserved at once, while memory is taken page by page as it is written: it
/// may be much larger than what it will hold. Its elements are zero at first. Undefined where the device has
/// no such memory, or the process no more address space. Not counted by MemoryTracker.
Tensor reserve_tensor(const Shape& shape, DType dtype, Device device);

/// Gives back the memory of the pages that lie whole within bytes [begin, end) of a tensor that
/// reserve_tensor() made; what is there is zero then, also in tensors that share these pages.
void give_back_pages(const Tensor& reserved, std::size_t begin, std::size_t end);

/// Has `bytes` of one tensor of reserve_tensor() stand in another as well: what is written to one is in both,
/// and the memory stays until both have gone. Offsets and bytes are whole pages; sharing or renewing pages
/// within these bytes of `from` before makes them several pieces, each of which is shared by itself. False:
/// the system refuses, and the other's pages are its own and zero.
bool share_pages(const Tensor& from, std::size_t from_begin, const Tensor& to, std::size_t to_begin,
                 std::size_t bytes);

/// Has bytes [begin, end), whole pages, be this tensor's alone again and zero; whoever shares them keeps
/// them. Throws OutOfMemory.
void renew_pages(const Tensor& reserved, std::size_t begin, std::size_t end);

/// Pieces of address space that a process may have.
std::size_t most_mappings();

}  // namespace ingot
