#include "ingot/core/reserved_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace ingot {

std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

Tensor reserve_tensor(const Shape& shape, DType dtype, Device device) {
  const std::size_t bytes = estimate_tensor_bytes(shape, dtype);
  if (!device.is_cpu() || bytes == 0) return {};
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return {};
  // A huge page would take 2 MiB for the first token of each head.
  static_cast<void>(::madvise(data, bytes, MADV_NOHUGEPAGE));
  return Tensor::wrap(data, shape, dtype, device, [data, bytes] { ::munmap(data, bytes); });
}

void give_back_pages(const Tensor& reserved, std::size_t begin, std::size_t end) {
  const std::size_t page = page_bytes(), first = (begin + page - 1) / page * page, last = end / page * page;
  if (first >= last) return;
  static_cast<void>(
      ::madvise(static_cast<std::byte*>(reserved.view().data) + first, last - first, MADV_DONTNEED));
}

}  // namespace ingot
