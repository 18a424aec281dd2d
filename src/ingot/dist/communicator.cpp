#include "ingot/dist/communicator.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/worker_pool.h"
#include "ingot/dist/mpi_communicator.h"

namespace ingot::dist {
namespace {

class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  std::string engine() const override { return "one process"; }
  void barrier() override {}
  void broadcast(std::span<std::byte> /*data*/, int /*root*/) override {}
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(mine, all.begin());
  }
  void all_gather(std::span<std::byte> /*all*/, std::span<const Slice> /*slices*/) override {}
  void all_to_all(std::span<const std::byte> from, std::span<const Slice> slices,
                  std::span<std::byte> to) override {
    std::ranges::copy(from.subspan(slices[0].begin, slices[0].size()), to.begin());
  }
  void all_reduce(std::span<float> /*values*/) override {}
  void send(std::span<const std::byte> /*data*/, int to) override { refuse(to); }
  void receive(std::span<std::byte> /*data*/, int from) override { refuse(from); }
  std::unique_ptr<Communicator> split(int /*color*/) override { return alone(); }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  [[noreturn]] static void refuse(int rank) {
    throw CommunicationError(fmt::format("there is no rank {} in a run of one process", rank));
  }
};

}  // namespace

std::unique_ptr<Communicator> Communicator::split(int /*color*/) {
  throw CommunicationError(fmt::format("{} has no groups of ranks", engine()));
}

void Communicator::set_activity(std::string activity) {
  const std::lock_guard lock(activity_mutex_);
  activity_ = std::move(activity);
}

std::string Communicator::activity() const {
  const std::lock_guard lock(activity_mutex_);
  return activity_;
}

std::vector<std::string> Communicator::all_gather(const std::string& mine) {
  const auto length = static_cast<std::uint64_t>(mine.size());
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size()));
  all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)));
  const std::size_t longest = *std::ranges::max_element(lengths);
  std::string padded = mine;
  padded.resize(longest);
  std::string all(longest * lengths.size(), '\0');
  all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  texts.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) texts.push_back(all.substr(i * longest, lengths[i]));
  return texts;
}

void Communicator::reduce_scatter(std::span<const std::byte> /*from*/, std::span<const Slice> /*slices*/,
                                  std::span<std::byte> /*to*/, DType dtype) {
  throw CommunicationError(fmt::format("{} has no sum of {}", engine(), name(dtype)));
}

Communicator* Communicator::of(Device device) {
  if (device == this->device()) return this;
  return beside_ != nullptr ? beside_->of(device) : nullptr;
}

void Communicator::give_up(const Waiting& own) {
  std::vector<std::optional<Waiting>> ranks(static_cast<std::size_t>(size()));
  ranks[static_cast<std::size_t>(rank())] = own;
  throw CommunicationError(tell_late_ranks(
      rank(), ranks, std::vector<std::string>(ranks.size(), "an unknown host"), timeout_name_));
}

void Communicator::tell_failure(std::string_view why) noexcept {
  Waiting own = position();
  own.failure = why.empty() ? "it does not say why" : why;
  tell_failure(own);
}

bool Communicator::any(bool mine) {
  float count = mine ? 1 : 0;
  all_reduce(std::span(&count, 1));
  return count > 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "an unknown host";
  return name.data();
}

std::unique_ptr<Communicator> alone() { return std::make_unique<Alone>(); }

bool is_launched() {
  // Open MPI's own launcher; Slurm's, where it speaks to processes as Open MPI expects.
  std::string processes = first_variable({"OMPI_COMM_WORLD_SIZE"});
  if (processes.empty() && !first_variable({"PMIX_RANK"}).empty())
    processes = first_variable({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  return !processes.empty() && processes != "1";
}

namespace {

void refuse_torchrun() {
  // Environment: WORLD_SIZE, RANK | set by torchrun, which cannot start ranks here: commands that would share
  // work refuse them
  const std::string processes = first_variable({"WORLD_SIZE"});
  INGOT_CHECK(
      processes.empty() || processes == "1" || first_variable({"RANK"}).empty(),
      InvalidConfig("WORLD_SIZE",
                    fmt::format("is {}: torchrun, or what sets RANK like it, started this process as one of "
                                "several, and ranks find each other by Open MPI alone; start them by "
                                "`mpirun -n {} ingot ...` or `srun --mpi=pmix`, or unset WORLD_SIZE",
                                processes, processes)));
}

// MPICH's and Intel's mpiexec, and srun without PMIx.
void refuse_launchers_without_pmix() {
  // The program of a trial is a process of its own, whatever started the workers of the study.
  if (!first_variable({"INGOT_TRIAL"}).empty()) return;
  const LaunchRank launch = LaunchRank::from_environment();
  if (launch.size <= 1) return;
  const bool by_mpiexec = !first_variable({"PMI_RANK"}).empty();
  throw InvalidConfig(
      by_mpiexec ? "PMI_SIZE" : "SLURM_STEP_NUM_TASKS",
      fmt::format("is {0}: {1} started this process as one of several, and ranks find each other by Open "
                  "MPI alone; start them by Open MPI's `mpirun -n {0} ingot ...` or `srun --mpi=pmix -n {0} "
                  "ingot ...`, or unset {2} for a process of its own",
                  launch.size, by_mpiexec ? "an mpiexec that is not Open MPI's" : "srun without PMIx",
                  by_mpiexec ? "PMI_RANK" : "SLURM_STEP_ID"));
}

// Each of their processes would train the whole, and all write to one directory.
void refuse_other_launchers() {
  refuse_torchrun();
  refuse_launchers_without_pmix();
}

}  // namespace

Communicator& world() {
  static const std::unique_ptr<Communicator> communicator = [] {
    if (is_launched()) return mpi_communicator();
    refuse_other_launchers();
    return alone();
  }();
  return *communicator;
}

}  // namespace ingot::dist
