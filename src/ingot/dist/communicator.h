#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ingot::dist {

/// The processes (ranks) of one run, started together by mpirun, srun or the like. All of them call the same
/// operations in the same order, each from one thread. Memory is the host's.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The number of this process among those of its machine, and how many those are.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  bool is_first() const { return rank() == 0; }

  /// Waits until every rank is here.
  virtual void barrier() = 0;
  /// `data` of rank `root` goes to all.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Every rank's `mine`, in the order of ranks, goes to `all` of every rank: size() times as large.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  /// Part i of `from` goes to rank i; `to` gets a part from each rank, in the order of ranks. Parts are of
  /// one size.
  virtual void all_to_all(std::span<const std::byte> from, std::span<std::byte> to) = 0;
  /// Sums in place, in the order that is quickest: ranks get equal bits, other numbers of ranks others.
  virtual void all_reduce(std::span<float> values) = 0;
  /// Ends every process of the run at once, from any state.
  [[noreturn]] virtual void abort(int exit_code) = 0;

  /// Texts of different lengths, by rank.
  std::vector<std::string> all_gather(const std::string& mine);
  /// Whether one of the ranks says so.
  bool any(bool mine);
};

/// A run of one process.
std::unique_ptr<Communicator> alone();

/// Whether a launcher started this process as one of several.
bool is_launched();

/// The communicator of this process: MPI where a launcher started it as one of several (Open MPI, loaded when
/// it is first asked for), else alone(). It lives until the process ends. NotAvailable where the launcher is
/// there and MPI is not.
Communicator& world();

}  // namespace ingot::dist
