#include "ingot/weights/blob.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <unistd.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

// Linux maps up to so much around a page that is touched: 64 KiB, or the huge page that holds it in the
// cache.
constexpr std::size_t kFaultAround = std::size_t{2} << 20;

std::size_t page_size() {
  static const auto kSize = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return kSize;
}

}  // namespace

MappedPages::MappedPages(MappedFile file) : file_(std::move(file)) {}

MappedPages::Pages MappedPages::pages_of(std::span<const std::byte> range) const {
  const auto start = static_cast<std::size_t>(range.data() - file_.bytes().data());
  return {start / page_size(), (start + range.size() + page_size() - 1) / page_size()};
}

void MappedPages::will_need(std::span<const std::byte> range) const {
  file_.will_need(static_cast<std::size_t>(range.data() - file_.bytes().data()), range.size());
}

// Makes `page` a key, which changes nothing that the keys say.
void MappedPages::split_at(std::size_t page) {
  const auto next = users_.upper_bound(page);
  users_.emplace_hint(next, page, std::prev(next)->second);
}

// Drops a key that says what the one before it says.
void MappedPages::join_at(std::size_t page) {
  const auto at = users_.find(page);
  if (at != users_.begin() && std::prev(at)->second == at->second) users_.erase(at);
}

void MappedPages::borrow(std::span<const std::byte> range) {
  const Pages pages = pages_of(range);
  const std::lock_guard lock(mutex_);
  split_at(pages.first);
  split_at(pages.end);
  for (auto at = users_.find(pages.first); at->first != pages.end; ++at) ++at->second;
  join_at(pages.first);
  join_at(pages.end);
}

void MappedPages::give_back(std::span<const std::byte> range) {
  const Pages pages = pages_of(range);
  const std::lock_guard lock(mutex_);
  split_at(pages.first);
  split_at(pages.end);
  for (auto at = users_.find(pages.first); at->first != pages.end; ++at) {
    INGOT_ASSERT(at->second > 0);
    --at->second;
  }
  join_at(pages.first);
  join_at(pages.end);
  // Under the lock: nobody can borrow these pages, and write into them, before they are gone.
  drop_unused(pages);
}

// Unused pages of a range, and of its surroundings, which came in together with it.
void MappedPages::drop_unused(Pages pages) {
  const std::size_t around = kFaultAround / page_size();
  const std::size_t from = pages.first - std::min(pages.first, around), to = pages.end + around;
  for (auto at = std::prev(users_.upper_bound(from)); at != users_.end() && at->first < to; ++at) {
    if (at->second > 0) continue;
    const auto next = std::next(at);
    const std::size_t first = std::max(at->first, from),
                      end = next == users_.end() ? to : std::min(next->first, to);
    file_.will_not_need(first * page_size(), (end - first) * page_size());
  }
}

PageLoan::PageLoan(Blob blob) : blob_(std::move(blob)) {
  if (blob_.pages != nullptr) blob_.pages->borrow(blob_.bytes);
}

PageLoan::~PageLoan() {
  if (blob_.pages != nullptr) blob_.pages->give_back(blob_.bytes);
}

Blob on_loan(Blob blob) {
  if (blob.pages != nullptr) blob.owner = std::make_shared<PageLoan>(blob);
  return blob;
}

Blob map_blob(const std::string& path) {
  auto pages = std::make_shared<MappedPages>(MappedFile(path, MappedFile::Access::copy_on_write));
  const std::span<std::byte> bytes = pages->bytes();
  return {path, bytes, pages, pages};
}

Blob memory_blob(std::string name, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  const std::span<std::byte> all(*owner);
  return {std::move(name), all, std::move(owner), nullptr};
}

Blob part_of(const Blob& blob, std::size_t offset, std::size_t size) {
  INGOT_ASSERT(offset <= blob.bytes.size() && size <= blob.bytes.size() - offset);
  return {blob.name, blob.bytes.subspan(offset, size), blob.owner, blob.pages};
}

void will_need(const Blob& blob, std::size_t offset, std::size_t size) {
  if (blob.pages != nullptr) blob.pages->will_need(part_of(blob, offset, size).bytes);
}

Tensor tensor_in(const Blob& blob, std::size_t offset, const Shape& shape, DType dtype) {
  const std::size_t size = estimate_tensor_bytes(shape, dtype);
  if (size == 0) return Tensor::empty(shape, dtype);
  const Blob values = on_loan(part_of(blob, offset, size));
  std::byte* data = values.bytes.data();
  if (reinterpret_cast<std::uintptr_t>(data) % byte_size(dtype) == 0) {
    return Tensor::wrap(data, shape, dtype, kCpu, [owner = values.owner] {});
  }
  return Tensor::from_bytes(values.bytes, shape, dtype);
}

}  // namespace ingot
