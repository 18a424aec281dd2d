#pragma once

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ingot/dist/communicator.h"

namespace ingot::test {

/// Ranks that are threads of this process, for tests of what ranks do together: run(body) calls body(rank's
/// communicator) on each. A body that throws ends the test's process, as a rank that fails ends a run.
class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks)
      : ranks_(ranks), barrier_(ranks), pointers_(static_cast<std::size_t>(ranks)) {}

  void run(const std::function<void(dist::Communicator&)>& body) {
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank)
      threads.emplace_back([this, rank, &body] {
        Rank communicator(*this, rank);
        body(communicator);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  class Rank final : public dist::Communicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    Rank(std::shared_ptr<ThreadRanks> group, int rank)
        : group_(std::move(group)), all_(*group_), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.ranks_; }
    int local_rank() const override { return rank_; }
    int local_size() const override { return all_.ranks_; }
    std::string engine() const override { return "threads"; }
    using Communicator::all_gather;

    void barrier() override { all_.barrier_.arrive_and_wait(); }
    void broadcast(std::span<std::byte> data, int root) override {
      exchange(data.data(), [&] {
        if (rank_ != root) std::memcpy(data.data(), of(root), data.size());
      });
    }
    void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
      exchange(mine.data(), [&] {
        for (int r = 0; r < size(); ++r)
          std::memcpy(all.data() + static_cast<std::size_t>(r) * mine.size(), of(r), mine.size());
      });
    }
    void all_gather(std::span<std::byte> all, std::span<const dist::Slice> slices) override {
      exchange(all.data(), [&] {
        for (int r = 0; r < size(); ++r) {
          const dist::Slice& slice = slices[static_cast<std::size_t>(r)];
          if (r != rank_) std::memcpy(all.data() + slice.begin, of(r) + slice.begin, slice.size());
        }
      });
    }
    void all_to_all(std::span<const std::byte> from, std::span<const dist::Slice> slices,
                    std::span<std::byte> to) override {
      const dist::Slice& own = slices[static_cast<std::size_t>(rank_)];
      exchange(from.data(), [&] {
        for (int r = 0; r < size(); ++r)
          std::memcpy(to.data() + static_cast<std::size_t>(r) * own.size(), of(r) + own.begin, own.size());
      });
    }
    void all_reduce(std::span<float> values) override {
      std::vector<float> sums(values.size());
      exchange(reinterpret_cast<const std::byte*>(values.data()), [&] {
        for (int r = 0; r < size(); ++r)
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += reinterpret_cast<const float*>(of(r))[i];
      });
      std::ranges::copy(sums, values.begin());
    }
    void send(std::span<const std::byte> data, int to) override {
      const std::lock_guard lock(all_.mutex_);
      all_.sent_[{rank_, to}].emplace_back(data.begin(), data.end());
      all_.changed_.notify_all();
    }
    void receive(std::span<std::byte> data, int from) override {
      std::unique_lock lock(all_.mutex_);
      auto& waiting = all_.sent_[{from, rank_}];
      all_.changed_.wait(lock, [&] { return !waiting.empty(); });
      std::ranges::copy(waiting.front(), data.begin());
      waiting.pop_front();
    }
    std::unique_ptr<dist::Communicator> split(int color) override {
      std::vector<std::int64_t> colors(static_cast<std::size_t>(size()));
      const std::int64_t own = color;
      all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(colors)));
      const auto end = colors.begin() + rank_;
      const auto here = static_cast<int>(std::count(colors.begin(), end, own)),
                 ranks = static_cast<int>(std::ranges::count(colors, own));
      std::shared_ptr<ThreadRanks> group;
      {
        const std::lock_guard lock(all_.mutex_);
        auto& [made, taken] = all_.groups_[color];
        if (taken++ % ranks == 0) made = std::make_shared<ThreadRanks>(ranks);
        group = made;
      }
      barrier();
      {
        const std::lock_guard lock(all_.mutex_);
        all_.groups_.erase(color);
      }
      return std::make_unique<Rank>(group, here);
    }
    std::vector<std::span<std::byte>> shared_memory(std::size_t bytes) override {
      constexpr std::size_t kAlignment = 64;
      if (rank_ == 0)
        all_.shared_.assign(static_cast<std::size_t>(size()), std::vector<std::byte>(bytes + kAlignment));
      barrier();
      std::vector<std::span<std::byte>> blocks;
      for (std::vector<std::byte>& memory : all_.shared_) {
        void* begin = memory.data();
        std::size_t room = memory.size();
        blocks.emplace_back(static_cast<std::byte*>(std::align(kAlignment, bytes, begin, room)), bytes);
      }
      return blocks;
    }
    [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

   private:
    // Every rank shows its memory, reads the others', and goes on when all have.
    template <class Read>
    void exchange(const std::byte* mine, Read&& read) {
      all_.pointers_[static_cast<std::size_t>(rank_)] = mine;
      barrier();
      read();
      barrier();
    }
    const std::byte* of(int rank) const { return all_.pointers_[static_cast<std::size_t>(rank)]; }

    std::shared_ptr<ThreadRanks> group_;  // of a split
    ThreadRanks& all_;
    int rank_;
  };

  int ranks_;
  std::barrier<> barrier_;
  std::vector<const std::byte*> pointers_;
  std::vector<std::vector<std::byte>> shared_;                          // a block of each rank
  std::map<int, std::pair<std::shared_ptr<ThreadRanks>, int>> groups_;  // by color; how many have taken it
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> sent_;  // by sender and receiver
};

}  // namespace ingot::test
