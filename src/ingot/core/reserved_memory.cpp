#include "ingot/core/reserved_memory.h"

#include <fstream>

#include <sys/mman.h>
#include <unistd.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

// Shared with nobody but who asks for it by share_pages(): there is no file or name to open.
constexpr int kFlags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;

std::byte* at(const Tensor& tensor, std::size_t offset) {
  return static_cast<std::byte*>(tensor.view().data) + offset;
}

// A huge page would take 2 MiB for the first token of each head.
void use_small_pages(void* data, std::size_t bytes) {
  static_cast<void>(::madvise(data, bytes, MADV_NOHUGEPAGE));
}

}  // namespace

std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

Tensor reserve_tensor(const Shape& shape, DType dtype, Device device) {
  const std::size_t bytes = estimate_tensor_bytes(shape, dtype);
  if (!device.is_cpu() || bytes == 0) return {};
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (data == MAP_FAILED) return {};
  use_small_pages(data, bytes);
  return Tensor::wrap(data, shape, dtype, device, [data, bytes] { ::munmap(data, bytes); });
}

void give_back_pages(const Tensor& reserved, std::size_t begin, std::size_t end) {
  const std::size_t page = page_bytes(), first = (begin + page - 1) / page * page, last = end / page * page;
  if (first >= last) return;
  static_cast<void>(::madvise(at(reserved, first), last - first, MADV_REMOVE));
}

bool share_pages(const Tensor& from, std::size_t from_begin, const Tensor& to, std::size_t to_begin,
                 std::size_t bytes) {
  // With no bytes of the old mapping it stays, and the new one has the same pages.
  void* data = ::mremap(at(from, from_begin), 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at(to, to_begin));
  if (data != MAP_FAILED) return true;
  renew_pages(to, to_begin, to_begin + bytes);  // what was there may be unmapped
  return false;
}

void renew_pages(const Tensor& reserved, std::size_t begin, std::size_t end) {
  void* data = ::mmap(at(reserved, begin), end - begin, PROT_READ | PROT_WRITE, kFlags | MAP_FIXED, -1, 0);
  INGOT_CHECK(data != MAP_FAILED, OutOfMemory("renew_pages", end - begin, 0, 0));
  use_small_pages(data, end - begin);
}

std::size_t most_mappings() {
  constexpr std::size_t kUsual = 65530;
  static const std::size_t kMost = [] {
    std::size_t most = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> most;
    return most > 0 ? most : kUsual;
  }();
  return kMost;
}

}  // namespace ingot
