#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "ingot/base/files.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// The pages of a mapped file and who uses them. What nobody uses any more leaves the process' memory (not
/// the system's cache of the file), so that converting a model does not pile up the file beside its values.
class MappedPages {
 public:
  explicit MappedPages(MappedFile file);
  std::span<std::byte> bytes() const { return file_.writable_bytes(); }
  /// Only a hint. The range must lie inside the file, here and below.
  void will_need(std::span<const std::byte> range) const;
  void borrow(std::span<const std::byte> range);
  /// Ends one borrow() of the same range. What was written into pages that nobody uses now is lost.
  void give_back(std::span<const std::byte> range);

 private:
  struct Pages {
    std::size_t first, end;
  };
  Pages pages_of(std::span<const std::byte> range) const;
  void split_at(std::size_t page);
  void join_at(std::size_t page);
  void drop_unused(Pages pages);

  MappedFile file_;
  std::mutex mutex_;
  /// How many use each page: users_[p] from page p up to the next key.
  std::map<std::size_t, int> users_{{0, 0}};
};

/// Bytes of a file (or of something like one) that stay where they are for as long as anybody holds them.
/// Every format is read from one, so it does not matter where the bytes come from.
struct Blob {
  std::string name;  ///< path or address, for messages
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::shared_ptr<MappedPages> pages;  ///< those of the mapped file that the bytes are in; null for others
};

/// A file mapped copy-on-write; nothing is read yet.
Blob map_blob(const std::string& path);
/// Bytes in memory, which are taken over.
Blob memory_blob(std::string name, std::vector<std::byte> bytes);

/// A part of a blob, which keeps the whole alive. The range must lie inside.
Blob part_of(const Blob& blob, std::size_t offset, std::size_t size);

/// Holds a blob, and borrows its pages where it is mapped. Whoever reads a file's values takes one meanwhile.
class PageLoan {
 public:
  explicit PageLoan(Blob blob);
  ~PageLoan();
  PageLoan(const PageLoan&) = delete;
  PageLoan& operator=(const PageLoan&) = delete;

 private:
  Blob blob_;
};

/// The same blob, on loan until its last copy goes.
Blob on_loan(Blob blob);

/// Says that a range of the blob will be read soon. Only a hint.
void will_need(const Blob& blob, std::size_t offset, std::size_t size);

/// The tensor whose values stand at `offset` of the blob: an alias that keeps the blob alive where the
/// address suits the dtype, else a copy. The range must lie inside the blob.
Tensor tensor_in(const Blob& blob, std::size_t offset, const Shape& shape, DType dtype);

}  // namespace ingot
