#include "ingot/core/block_pool.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>

#include <sys/mman.h>

#if defined(__SANITIZE_THREAD__)
#define INGOT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define INGOT_THREAD_SANITIZER 1
#endif
#endif

namespace ingot {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::uintptr_t number(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); }

// With huge pages asked for, at `wanted` if that is free.
std::byte* map_huge(std::byte* wanted, std::size_t size) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  void* mapped = ::mmap(wanted, size, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (number(static_cast<std::byte*>(mapped)) % kHugePage != 0) {
    ::munmap(mapped, size);
    const std::size_t more = size + kHugePage;
    mapped = ::mmap(nullptr, more, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* start = static_cast<std::byte*>(mapped);
    const std::size_t before = (kHugePage - number(start) % kHugePage) % kHugePage;
    if (before > 0) ::munmap(start, before);
    ::munmap(start + before + size, more - before - size);
    mapped = start + before;
  }
  ::madvise(mapped, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(mapped);
}

// ThreadSanitizer ends a process that maps memory where it expects none, which is not far away.
#if defined(INGOT_THREAD_SANITIZER)
constexpr std::size_t kGap = std::size_t{16} << 30;
#else
constexpr std::size_t kGap = std::size_t{1} << 40;
#endif

// Where much lies free, so that what is asked for later may come behind what is there. Null where this
// process may not have as many addresses.
std::byte* far_from_all() {
  void* all = ::mmap(nullptr, kGap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  ::munmap(all, kGap);
  auto* begin = static_cast<std::byte*>(all);
  return begin + (kHugePage - number(begin) % kHugePage) % kHugePage;
}

// The huge pages that lie wholly in a range, and what is before and behind them.
struct Pages {
  std::size_t before, whole, behind;
};
Pages pages_in(const std::byte* begin, std::size_t size) {
  const std::size_t before = std::min(size, (kHugePage - number(begin) % kHugePage) % kHugePage),
                    whole = (size - before) / kHugePage * kHugePage;
  return {before, whole, size - before - whole};
}

}  // namespace

BlockPool::BlockPool() : end_(far_from_all()) {}

std::size_t BlockPool::size_of(std::size_t bytes) { return rounded_up(bytes, kAlignment); }

// Only a range without free neighbours needs memory for its entries: nothing has changed where that is short.
void BlockPool::add(std::byte* begin, std::size_t size) {
  const auto behind = free_.lower_bound(begin);
  const bool joins_behind = behind != free_.end() && begin + size == behind->first;
  if (behind != free_.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second == begin) {
      const std::size_t more = size + (joins_behind ? behind->second : 0);
      free_bytes_ += size;
      if (joins_behind) {
        by_size_.erase({behind->second, behind->first});
        free_.erase(behind);
      }
      return change(before, before->first, before->second + more);
    }
  }
  if (joins_behind) {
    change(behind, begin, size + behind->second);
  } else {
    const auto added = free_.emplace_hint(behind, begin, size);
    try {
      by_size_.insert({size, begin});
    } catch (const std::bad_alloc&) {
      free_.erase(added);
      throw;
    }
  }
  free_bytes_ += size;
}

void BlockPool::add_or_lose(std::byte* begin, std::size_t size) noexcept {
  try {
    add(begin, size);
  } catch (const std::bad_alloc&) {
    if (const Pages pages = pages_in(begin, size); pages.whole > 0)
      ::munmap(begin + pages.before, pages.whole);
  }
}

// To another begin or size, between the same neighbours. Its entries stay where they are in memory.
void BlockPool::change(Range range, std::byte* begin, std::size_t size) noexcept {
  auto sized = by_size_.extract({range->second, range->first});
  sized.value() = {size, begin};
  by_size_.insert(std::move(sized));
  auto node = free_.extract(range);
  node.key() = begin;
  node.mapped() = size;
  free_.insert(std::move(node));
}

void* BlockPool::cut(Range range, std::size_t size) noexcept {
  std::byte* const begin = range->first;
  const std::size_t all = range->second;
  free_bytes_ -= size;
  if (all > size) {
    change(range, begin + size, all - size);
  } else {
    by_size_.erase({all, begin});
    free_.erase(range);
  }
  return begin;
}

// False when the system has no more, or there is no memory for the entries.
bool BlockPool::map(std::size_t size) {
  std::byte* const begin = map_huge(end_, size);
  if (begin == nullptr) return false;
  try {
    add(begin, size);
  } catch (const std::bad_alloc&) {
    ::munmap(begin, size);
    return false;
  }
  end_ = begin + size;
  return true;
}

// By what is missing, where free memory ends at the end of all.
bool BlockPool::grow(std::size_t size) {
  if (size > kMost) return false;
  // Something may lie behind the end: then once more, from where the memory came to be.
  for (int i = 0; i < 2; ++i) {
    std::size_t missing = size;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_) missing -= std::min(missing, last->second);
    }
    if (!map(std::max(rounded_up(missing, kHugePage), kHugePage))) return false;
    if (by_size_.lower_bound({size, nullptr}) != by_size_.end()) return true;
  }
  return map(rounded_up(size, kHugePage));
}

void* BlockPool::allocate(std::size_t size) {
  auto found = by_size_.lower_bound({size, nullptr});
  if (found == by_size_.end()) {
    if (!grow(size)) return nullptr;
    found = by_size_.lower_bound({size, nullptr});
    if (found == by_size_.end()) return nullptr;
  }
  return cut(free_.find(found->second), size);
}

void BlockPool::deallocate(void* data, std::size_t size) noexcept {
  add_or_lose(static_cast<std::byte*>(data), size);
}

void BlockPool::trim() noexcept {
  for (auto next = free_.begin(); next != free_.end();) {
    const auto range = next++;
    const auto [begin, size] = *range;
    const Pages pages = pages_in(begin, size);
    // It fails where the process may not have as many ranges.
    if (pages.whole == 0 || ::munmap(begin + pages.before, pages.whole) != 0) continue;
    cut(range, size);
    if (pages.before > 0) add_or_lose(begin, pages.before);
    if (pages.behind > 0) add_or_lose(begin + pages.before + pages.whole, pages.behind);
  }
}

}  // namespace ingot
