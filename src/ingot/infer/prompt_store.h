#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ingot/models/language/kv_cache.h"

namespace ingot::infer {

struct PromptStoreOptions {
  std::string directory{};                       ///< empty: nothing is stored
  std::uint64_t bytes = std::uint64_t{4} << 30;  ///< of all files in it, whosever they are
  std::string model{};                           ///< what tells the model and how it runs from all others
  std::int64_t block = 64;                       ///< tokens in a file
};

/// Keys and values of prompts on disk, so that prompts that begin alike need not be read again after a
/// restart. A file holds a block of tokens, under a hash of these, of all tokens before them, of model,
/// adapter and dtype; prompts with a common prefix share its files. The least recently used files go first;
/// several processes may share a directory. A thread writes. Nothing here throws once the store is made: what
/// is damaged or cannot be written counts as not there, and the first such file is told.
class PromptStore {
 public:
  /// IoError where the directory cannot be made.
  PromptStore(PromptStoreOptions options, DType dtype);
  /// Writes what is left to be written.
  ~PromptStore();
  PromptStore(const PromptStore&) = delete;
  PromptStore& operator=(const PromptStore&) = delete;

  /// How many tokens at the beginning of a prompt are stored.
  std::int64_t find(std::span<const std::int32_t> tokens, const std::string& adapter) const;
  /// Has the cache hold the first tokens of a prompt, as far as they are stored and fit it. It holds its
  /// first `known` ones already.
  void load(KvCache& cache, std::span<const std::int32_t> tokens, std::int64_t known,
            const std::string& adapter);
  /// Stores the tokens that the cache holds, those of whole blocks. Copies what is not stored yet, and
  /// returns.
  void store(const KvCache& cache, std::span<const std::int32_t> tokens, const std::string& adapter);

 private:
  using Key = std::string;  // hexadecimal
  struct Order {            // to write the last blocks of a prompt
    std::vector<Key> keys;  // of all blocks
    std::size_t first = 0;  // that is written
    std::vector<Tensor> saved;
    std::uint64_t bytes = 0;
  };
  std::vector<Key> keys(std::span<const std::int32_t> tokens, const std::string& adapter) const;
  std::string file(const Key& key) const;
  bool is_stored(const Key& key) const;
  bool read(const Key& key, std::int64_t at, std::span<const Tensor> to) const;
  void work();
  void carry_out(const Order& order);
  void write(const Key& key, std::int64_t at, std::span<const Tensor> from);
  void make_room(std::uint64_t bytes) const;
  void tell(const std::string& what) const;

  const PromptStoreOptions options_;
  const std::string root_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Order> orders_;
  std::set<Key> pending_;      // of the orders
  std::uint64_t waiting_ = 0;  // bytes of the orders
  bool stopping_ = false;
  mutable bool told_ = false;
  std::thread thread_;
};

}  // namespace ingot::infer
