#include "ingot/core/block_pool.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <sys/mman.h>

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

// Where much lies free, so that what is asked for later may come behind what is there. Null where this
// process may not have as many addresses.
std::byte* far_from_all() {
  constexpr std::size_t kFree = std::size_t{1} << 40;
  void* all = ::mmap(nullptr, kFree, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  ::munmap(all, kFree);
  auto* begin = static_cast<std::byte*>(all);
  return begin + (kHugePage - number(begin) % kHugePage) % kHugePage;
}

}  // namespace

BlockPool::BlockPool() : end_(far_from_all()) {}

std::size_t BlockPool::size_of(std::size_t bytes) { return rounded_up(bytes, kAlignment); }

void BlockPool::add(std::byte* begin, std::size_t size) {
  free_bytes_ += size;
  const auto behind = free_.lower_bound(begin);
  if (behind != free_.end() && begin + size == behind->first) {
    size += behind->second;
    by_size_.erase({behind->second, behind->first});
    free_.erase(behind);
  }
  const auto next = free_.lower_bound(begin);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      by_size_.erase({before->second, before->first});
      before->second += size;
      by_size_.insert({before->second, before->first});
      return;
    }
  }
  free_.emplace(begin, size);
  by_size_.insert({size, begin});
}

void BlockPool::remove(Range range) {
  free_bytes_ -= range->second;
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

void* BlockPool::cut(Range range, std::size_t size) {
  std::byte* const begin = range->first;
  const std::size_t all = range->second;
  remove(range);
  if (all > size) add(begin + size, all - size);
  return begin;
}

// By what is missing, where free memory ends at the end of all.
bool BlockPool::grow(std::size_t size) {
  std::size_t missing = size;
  if (!free_.empty()) {
    const auto last = std::prev(free_.end());
    if (last->first + last->second == end_) missing -= std::min(missing, last->second);
  }
  missing = std::max(rounded_up(missing, kHugePage), kHugePage);
  std::byte* begin = map_huge(end_, missing);
  if (begin == nullptr) return false;
  const bool follows = begin == end_;
  add(begin, missing);
  end_ = begin + missing;
  if (follows || missing >= size) return true;
  return grow(size);  // something lies behind the end: from here on
}

void* BlockPool::allocate(std::size_t size) {
  auto found = by_size_.lower_bound({size, nullptr});
  if (found == by_size_.end()) {
    if (!grow(size)) return nullptr;
    found = by_size_.lower_bound({size, nullptr});
  }
  return cut(free_.find(found->second), size);
}

void BlockPool::deallocate(void* data, std::size_t size) { add(static_cast<std::byte*>(data), size); }

void BlockPool::trim() {
  std::map<std::byte*, std::size_t> kept;
  for (const auto& [begin, size] : free_) {
    const std::size_t before = std::min(size, (kHugePage - number(begin) % kHugePage) % kHugePage),
                      whole = (size - before) / kHugePage * kHugePage, behind = size - before - whole;
    if (whole > 0) ::munmap(begin + before, whole);
    if (before > 0) kept.emplace(begin, before);
    if (behind > 0) kept.emplace(begin + before + whole, behind);
  }
  free_.clear();
  by_size_.clear();
  free_bytes_ = 0;
  for (const auto& [begin, size] : kept) add(begin, size);
}

}  // namespace ingot
