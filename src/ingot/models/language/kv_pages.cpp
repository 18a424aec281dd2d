#include "ingot/models/language/kv_pages.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ingot/core/reserved_memory.h"

namespace ingot {
namespace {

// Pieces of address space of all sequences that share blocks. Half of those that the process may have are
// left to everything else.
std::atomic<std::int64_t> all_pieces{0};
std::int64_t most_pieces() { return static_cast<std::int64_t>(most_mappings() / 2); }

std::uint64_t next_origin() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

std::size_t bytes_of(const KvPages::Part& part, std::int64_t rows) {
  return static_cast<std::size_t>(part.row * rows) * byte_size(part.dtype);
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

// Calls action(first, last) for each longest run of numbers of [begin, end) that are of one kind.
template <typename Kind, typename Action>
void for_each_run(std::int64_t begin, std::int64_t end, const Kind& kind, const Action& action) {
  for (std::int64_t first = begin; first < end;) {
    std::int64_t last = first + 1;
    while (last < end && kind(last) == kind(first)) ++last;
    action(first, last);
    first = last;
  }
}

}  // namespace

std::unique_ptr<KvPages> KvPages::reserve(const std::vector<Part>& parts, std::int64_t tokens,
                                          std::int64_t block, Device device) {
  tokens = (tokens + block - 1) / block * block;
  std::size_t bytes = 0;
  for (const Part& part : parts) bytes += whole_pages(bytes_of(part, part.heads * tokens));
  // One reservation for all parts: a process has only so many.
  Tensor memory = reserve_tensor({static_cast<std::int64_t>(bytes)}, DType::u8, device);
  if (!memory.defined()) return nullptr;
  return std::unique_ptr<KvPages>(new KvPages(parts, tokens, block, std::move(memory)));
}

KvPages::KvPages(const std::vector<Part>& parts, std::int64_t tokens, std::int64_t block, Tensor memory)
    : block_(block), memory_(std::move(memory)), parts_(parts), tokens_(tokens) {
  auto* const data = static_cast<std::byte*>(memory_.view().data);
  tensors_.reserve(parts_.size());
  std::size_t offset = 0;
  for (const Part& part : parts_) {
    tensors_.push_back(
        Tensor::wrap(data + offset, part.shape(tokens_), part.dtype, memory_.device(), [held = memory_] {}));
    const std::size_t block_bytes = bytes_of(part, block_);
    for (std::int64_t head = 0; head < part.heads; ++head)
      rows_.push_back({.begin = offset + bytes_of(part, head * tokens_),
                       .block_bytes = block_bytes,
                       .shares = block_bytes % page_bytes() == 0});
    offset += whole_pages(bytes_of(part, part.heads * tokens_));
  }
  set_origins(std::vector(static_cast<std::size_t>(tokens_ / block_), next_origin()));
}

// Pages of a mapping that others have some of would stay as long as they do.
KvPages::~KvPages() {
  const std::int64_t count = has_shared_ ? std::ssize(blocks_) : 0;
  for_each_run(
      0, count, [&](std::int64_t i) { return is_shared(i); },
      [&](std::int64_t first, std::int64_t last) {
        if (!is_shared(first)) let_go({first, last});
      });
  all_pieces -= counted_;
}

bool KvPages::shares(std::size_t part) const { return bytes_of(parts_[part], block_) % page_bytes() == 0; }

// The blocks are nobody else's: their memory goes.
void KvPages::let_go(Range range) {
  for (const Row& row : rows_) give_back_pages(memory_, row.of_block(range.begin), row.of_block(range.end));
}

// Others keep what they share of these blocks.
void KvPages::renew(Range range) {
  for (const Row& row : rows_)
    if (row.shares) renew_pages(memory_, row.of_block(range.begin), row.of_block(range.end));
  std::vector<std::uint64_t> origins = origins_;
  std::fill(origins.begin() + range.begin, origins.begin() + range.end, next_origin());
  set_origins(std::move(origins));
  for (std::int64_t i = range.begin; i < std::min(range.end, std::ssize(blocks_)); ++i)
    blocks_[static_cast<std::size_t>(i)] = std::make_shared<Block>();
}

std::int64_t KvPages::pieces(std::span<const std::uint64_t> origins) const {
  std::int64_t runs = 1;
  for (std::size_t i = 1; i < origins.size(); ++i) runs += origins[i] != origins[i - 1] ? 1 : 0;
  return runs == 1 ? 1 : runs * std::ssize(rows_);
}

void KvPages::set_origins(std::vector<std::uint64_t> origins) {
  const std::int64_t now = pieces(origins);
  all_pieces += now - counted_;
  counted_ = now;
  origins_ = std::move(origins);
}

void KvPages::hold(std::int64_t tokens) {
  while (std::ssize(blocks_) < blocks_of(tokens)) blocks_.push_back(std::make_shared<Block>());
}

void KvPages::keep(std::int64_t tokens) {
  const std::int64_t count = blocks_of(tokens);
  release({count, std::ssize(blocks_)});
  if (count < std::ssize(blocks_)) blocks_.resize(static_cast<std::size_t>(count));
  give_back_rest(tokens);
}

// Of the last block the pages that hold none of the tokens, where it is nobody else's.
void KvPages::give_back_rest(std::int64_t tokens) {
  const std::int64_t block = tokens / block_, kept = tokens % block_;
  if (kept == 0 || block >= std::ssize(blocks_) || is_shared(block)) return;
  for (const Row& row : rows_) {
    const std::size_t token_bytes = row.block_bytes / static_cast<std::size_t>(block_);
    give_back_pages(memory_, row.of_block(block) + token_bytes * static_cast<std::size_t>(kept),
                    row.of_block(block + 1));
  }
}

// All that was dropped becomes one piece of address space where some of it has to be renewed: else each block
// would be one. What nobody shares has gone by then, as it cannot be reached through the new piece.
void KvPages::drop(std::int64_t tokens) {
  const std::int64_t end = std::min(tokens / block_, std::ssize(blocks_));
  if (end <= first_) return;
  bool any_shared = false;
  for (std::int64_t i = first_; i < end; ++i) any_shared = any_shared || is_shared(i);
  if (any_shared && all_pieces + std::ssize(rows_) > most_pieces()) return;
  for_each_run(
      first_, end, [&](std::int64_t i) { return is_shared(i); },
      [&](std::int64_t first, std::int64_t last) {
        if (!is_shared(first)) let_go({first, last});
      });
  if (any_shared) {
    renew({0, end});
    let_go({first_, end});  // of the rows that are never shared
  }
  std::fill(blocks_.begin(), blocks_.begin() + end, nullptr);
  first_ = end;
}

void KvPages::refill() {
  for (std::int64_t i = 0; i < first_; ++i) blocks_[static_cast<std::size_t>(i)] = std::make_shared<Block>();
  first_ = 0;
}

// Afterwards nobody shares the blocks, which hold nothing.
void KvPages::release(Range range) {
  for_each_run(
      range.begin, range.end, [&](std::int64_t i) { return is_shared(i); },
      [&](std::int64_t first, std::int64_t last) {
        is_shared(first) ? renew({first, last}) : let_go({first, last});
      });
}

std::int64_t KvPages::shareable(std::int64_t tokens) const {
  const std::int64_t count = std::min(tokens / block_, std::ssize(blocks_));
  if (count <= first_) return 0;
  std::int64_t runs = first_ > 0 ? 3 : 2;  // with what is before and behind it in the other
  for (std::int64_t i = first_ + 1; i < count; ++i)
    runs += origins_[static_cast<std::size_t>(i)] != origins_[static_cast<std::size_t>(i - 1)] ? 1 : 0;
  return all_pieces + runs * std::ssize(rows_) > most_pieces() ? 0 : (count - first_) * block_;
}

std::int64_t KvPages::share(const KvPages& from, std::int64_t tokens) {
  const std::int64_t first = from.first_, count = std::min(tokens / block_, std::ssize(from.blocks_));
  if (count <= first || count > std::ssize(origins_)) return 0;
  std::vector<std::uint64_t> origins = origins_;
  std::copy(from.origins_.begin() + first, from.origins_.begin() + count, origins.begin() + first);
  if (all_pieces - counted_ + pieces(origins) > most_pieces()) return 0;
  hold(tokens);
  release({0, count});
  drop(first * block_);
  has_shared_ = from.has_shared_ = true;
  bool mapped = true;
  for_each_run(
      first, count, [&](std::int64_t i) { return origins[static_cast<std::size_t>(i)]; },
      [&](std::int64_t first, std::int64_t last) {
        mapped = mapped && map(from, {first, last});
      });
  if (!mapped) {
    renew({first, count});
    return 0;
  }
  // Those before are as release() has left them.
  std::copy_n(origins_.begin(), first, origins.begin());
  set_origins(std::move(origins));
  std::copy(from.blocks_.begin() + first, from.blocks_.begin() + count, blocks_.begin() + first);
  return count * block_;
}

// Blocks of one mapping.
bool KvPages::map(const KvPages& from, Range range) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row &to = rows_[i], &source = from.rows_[i];
    const bool mapped = !to.shares || share_pages(from.memory_, source.of_block(range.begin), memory_,
                                                  to.of_block(range.begin),
                                                  to.of_block(range.end) - to.of_block(range.begin));
    if (!mapped) return false;
  }
  return true;
}

void KvPages::own(std::int64_t tokens) {
  const std::int64_t block = tokens / block_, kept = tokens % block_;
  if (block >= std::ssize(blocks_)) return;
  if (kept > 0 && is_shared(block)) copy_block(block, kept);
  for_each_run(
      block, std::ssize(blocks_), [&](std::int64_t i) { return is_shared(i); },
      [&](std::int64_t first, std::int64_t last) {
        if (is_shared(first)) renew({first, last});
      });
}

// A block of its own with the first `kept` tokens of the one that it shares.
void KvPages::copy_block(std::int64_t block, std::int64_t kept) {
  auto* const data = static_cast<std::byte*>(memory_.view().data);
  std::vector<std::vector<std::byte>> rows;
  rows.reserve(rows_.size());
  for (const Row& row : rows_) {
    const std::byte* begin = data + row.of_block(block);
    const std::size_t bytes = row.shares ? row.block_bytes / static_cast<std::size_t>(block_) * kept : 0;
    rows.emplace_back(begin, begin + bytes);
  }
  renew({block, block + 1});
  for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(rows[i], data + rows_[i].of_block(block));
}

std::vector<const void*> KvPages::shared() const {
  std::vector<const void*> shared;
  for (const auto& block : blocks_)
    if (block.use_count() > 1) shared.push_back(block.get());
  return shared;
}

}  // namespace ingot
