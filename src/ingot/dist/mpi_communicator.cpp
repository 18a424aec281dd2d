#include "ingot/dist/mpi_communicator.h"

#include <array>
#include <cstdlib>
#include <limits>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

#include "ingot/base/shared_library.h"

namespace ingot::dist {
namespace {

// The part of Open MPI's C interface that is used here. Its handles are pointers to objects of the library,
// so that the functions are found without its headers, and a machine without MPI needs neither.
using Handle = void*;
constexpr int kSuccess = 0, kThreadSerialized = 2, kCommTypeShared = 0, kMaxText = 256;

struct Mpi {
  SharedLibrary library;
  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*finalized)(int*) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_split_type)(Handle, int, int, Handle, Handle*) = nullptr;
  int (*barrier)(Handle) = nullptr;
  int (*bcast)(void*, int, Handle, int, Handle) = nullptr;
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
  int (*alltoall)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle) = nullptr;
  int (*abort)(Handle, int) = nullptr;
  int (*error_string)(int, char*, int*) = nullptr;
  char *comm_world = nullptr, *info_null = nullptr, *byte = nullptr, *float32 = nullptr, *op_sum = nullptr;

  explicit Mpi(std::span<const std::string> names) : library(names) {
    library.find(init_thread, "MPI_Init_thread");
    library.find(finalized, "MPI_Finalized");
    library.find(finalize, "MPI_Finalize");
    library.find(comm_rank, "MPI_Comm_rank");
    library.find(comm_size, "MPI_Comm_size");
    library.find(comm_split_type, "MPI_Comm_split_type");
    library.find(barrier, "MPI_Barrier");
    library.find(bcast, "MPI_Bcast");
    library.find(allgather, "MPI_Allgather");
    library.find(alltoall, "MPI_Alltoall");
    library.find(allreduce, "MPI_Allreduce");
    library.find(abort, "MPI_Abort");
    library.find(error_string, "MPI_Error_string");
    library.find(comm_world, "ompi_mpi_comm_world");
    library.find(info_null, "ompi_mpi_info_null");
    library.find(byte, "ompi_mpi_byte");
    library.find(float32, "ompi_mpi_float");
    library.find(op_sum, "ompi_mpi_op_sum");
  }
};

const Mpi& mpi() {
  static const std::array<std::string, 2> names{"libmpi.so.40", "libmpi.so"};
  // Its plugins look for the library's functions among those of the process.
  static_cast<void>(dlopen(names[0].c_str(), RTLD_NOW | RTLD_GLOBAL));
  static const Mpi functions(names);
  if (!functions.library.problem().empty())
    throw CommunicationError(fmt::format(
        "a launcher started this process as one of several, but Open MPI cannot be loaded ({}); install it "
        "(Debian: openmpi-bin), or start one process",
        functions.library.problem()));
  return functions;
}

void check(int result, const char* what) {
  if (result == kSuccess) return;
  std::array<char, kMaxText> text{};
  int length = 0;
  mpi().error_string(result, text.data(), &length);
  throw CommunicationError(
      fmt::format("{}: {}", what, std::string(text.data(), static_cast<std::size_t>(length))));
}

// What a message is counted in: four bytes where they divide it, since counts are of 31 bits.
struct Counted {
  int count;
  Handle type;
};
Counted counted(std::size_t bytes, const char* what) {
  constexpr std::size_t kWord = 4;
  const bool words = bytes % kWord == 0;
  const std::size_t count = words ? bytes / kWord : bytes;
  INGOT_CHECK(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
              CommunicationError(fmt::format("{}: {} bytes are more than one message holds", what, bytes)));
  return {static_cast<int>(count), words ? mpi().float32 : mpi().byte};
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    int provided = 0;
    check(mpi().init_thread(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
    check(mpi().comm_rank(mpi().comm_world, &rank_), "MPI_Comm_rank");
    check(mpi().comm_size(mpi().comm_world, &size_), "MPI_Comm_size");
    Handle local = nullptr;
    check(mpi().comm_split_type(mpi().comm_world, kCommTypeShared, rank_, mpi().info_null, &local),
          "MPI_Comm_split_type");
    check(mpi().comm_rank(local, &local_rank_), "MPI_Comm_rank");
    check(mpi().comm_size(local, &local_size_), "MPI_Comm_size");
  }
  ~MpiCommunicator() override {
    int done = 0;
    if (mpi().finalized(&done) == kSuccess && done == 0) mpi().finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }

  void barrier() override { check(mpi().barrier(mpi().comm_world), "barrier"); }

  void broadcast(std::span<std::byte> data, int root) override {
    const Counted c = counted(data.size(), "broadcast");
    check(mpi().bcast(data.data(), c.count, c.type, root, mpi().comm_world), "broadcast");
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const Counted c = counted(mine.size(), "all-gather");
    check(mpi().allgather(mine.data(), c.count, c.type, all.data(), c.count, c.type, mpi().comm_world),
          "all-gather");
  }

  void all_to_all(std::span<const std::byte> from, std::span<std::byte> to) override {
    const Counted c = counted(from.size() / static_cast<std::size_t>(size_), "all-to-all");
    check(mpi().alltoall(from.data(), c.count, c.type, to.data(), c.count, c.type, mpi().comm_world),
          "all-to-all");
  }

  void all_reduce(std::span<float> values) override {
    const Counted c = counted(values.size_bytes(), "all-reduce");
    void* const in_place = reinterpret_cast<void*>(1);  // NOLINT(performance-no-int-to-ptr): MPI_IN_PLACE
    check(mpi().allreduce(in_place, values.data(), c.count, mpi().float32, mpi().op_sum, mpi().comm_world),
          "all-reduce");
  }

  [[noreturn]] void abort(int exit_code) override {
    mpi().abort(mpi().comm_world, exit_code);
    std::_Exit(exit_code);
  }

 private:
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> mpi_communicator() { return std::make_unique<MpiCommunicator>(); }

}  // namespace ingot::dist
