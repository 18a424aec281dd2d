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
/// reserve_tensor() made; what is there is zero then.
void give_back_pages(const Tensor& reserved, std::size_t begin, std::size_t end);

}  // namespace ingot
