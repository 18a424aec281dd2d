#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Memory for the keys and values of one sequence: address space for all tokens that it may come to, and a
/// table of blocks of tokens that have memory. Several sequences hold one block where they begin alike, by
/// reference count; who writes there has a copy of his own first. Blocks of one are at the same place in the
/// other, so that kernels find each head's rows contiguous.
class KvPages {
 public:
  /// Memory [heads, tokens, row], or [heads, tokens] where a row is one element.
  struct Part {
    std::int64_t heads = 1, row = 1;
    DType dtype = DType::f32;
    Shape shape(std::int64_t tokens) const {
      return row > 1 ? Shape{heads, tokens, row} : Shape{heads, tokens};
    }
  };

  /// Address space for `tokens` tokens, whole blocks of `block` tokens each. Null where the device or the
  /// process has none.
  static std::unique_ptr<KvPages> reserve(const std::vector<Part>& parts, std::int64_t tokens,
                                          std::int64_t block, Device device);
  ~KvPages();
  KvPages(const KvPages&) = delete;
  KvPages& operator=(const KvPages&) = delete;

  const Tensor& tensor(std::size_t part) const { return tensors_[part]; }
  /// Whether share() shares this part: others, whose rows are too small for pages, it leaves alone.
  bool shares(std::size_t part) const;

  /// Holds blocks for the first `tokens` tokens at least.
  void hold(std::int64_t tokens);
  /// Lets go of all blocks but those, and of whole pages of the last one behind them.
  void keep(std::int64_t tokens);
  /// Lets go of the whole blocks of the first `tokens` tokens, which nobody reads any more: what is there is
  /// zero then. Not of those that are shared where the process has no more pieces of address space.
  void drop(std::int64_t tokens);
  /// Tokens of blocks that drop() let go of.
  std::int64_t dropped() const { return first_ * block_; }
  /// Holds them again, to be written anew.
  void refill();
  /// How many of the first `tokens` tokens another sequence can share by share().
  std::int64_t shareable(std::int64_t tokens) const;
  /// Holds the whole blocks of the first `tokens` tokens of another sequence instead of its own, but for
  /// those that the other has dropped, which are dropped here, too. Returns the tokens that the blocks reach
  /// to; 0 where the process has no more pieces of address space.
  std::int64_t share(const KvPages& from, std::int64_t tokens);
  /// Before tokens behind the first `tokens` are written: of blocks there that others hold, too, it gets
  /// copies.
  void own(std::int64_t tokens);

  /// Those of its blocks that others hold, too.
  std::vector<const void*> shared() const;

 private:
  struct Block {};
  struct Range {
    std::int64_t begin = 0, end = 0;  // blocks
  };
  // Blocks of one head of a part lie behind one another.
  struct Row {
    std::size_t begin = 0, block_bytes = 0;  // in memory_
    bool shares = false;
    std::size_t of_block(std::int64_t block) const {
      return begin + static_cast<std::size_t>(block) * block_bytes;
    }
  };
  KvPages(const std::vector<Part>& parts, std::int64_t tokens, std::int64_t block, Tensor memory);
  bool is_shared(std::int64_t block) const {
    return blocks_[static_cast<std::size_t>(block)].use_count() > 1;
  }
  std::int64_t blocks_of(std::int64_t tokens) const { return (tokens + block_ - 1) / block_; }
  void let_go(Range range);
  void give_back_rest(std::int64_t tokens);
  void release(Range range);
  void copy_block(std::int64_t block, std::int64_t kept);
  void renew(Range range);
  bool map(const KvPages& from, Range range);
  std::int64_t pieces(std::span<const std::uint64_t> origins) const;
  void set_origins(std::vector<std::uint64_t> origins);

  const std::int64_t block_;  // tokens
  const Tensor memory_;       // of all parts
  const std::vector<Part> parts_;
  const std::int64_t tokens_;
  std::vector<Tensor> tensors_;
  std::vector<Row> rows_;
  std::vector<std::shared_ptr<Block>> blocks_;  // null: dropped
  std::int64_t first_ = 0;                      // block that is not
  // Of each block that there is address space for: which mapping its pages are of. Those of one mapping that
  // follow one another are one piece of address space for each head.
  std::vector<std::uint64_t> origins_;
  std::int64_t counted_ = 0;         // pieces
  mutable bool has_shared_ = false;  // pages of its mappings, ever
};

}  // namespace ingot
