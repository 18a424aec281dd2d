#include "ingot/dist/mpi_library.h"

#include <algorithm>
#include <limits>

#include <dlfcn.h>
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/dist/mpi_communicator.h"

namespace ingot::dist {
namespace {

constexpr int kSuccess = 0, kMaxText = 256;

}  // namespace

Mpi::Mpi(std::span<const std::string> names) : library(names) {
  library.find(init_thread, "MPI_Init_thread");
  library.find(finalized, "MPI_Finalized");
  library.find(finalize, "MPI_Finalize");
  library.find(comm_rank, "MPI_Comm_rank");
  library.find(comm_size, "MPI_Comm_size");
  library.find(comm_split_type, "MPI_Comm_split_type");
  library.find(comm_split, "MPI_Comm_split");
  library.find(comm_free, "MPI_Comm_free");
  library.find(comm_dup, "MPI_Comm_dup");
  library.find(win_allocate_shared, "MPI_Win_allocate_shared");
  library.find(win_shared_query, "MPI_Win_shared_query");
  library.find(win_free, "MPI_Win_free");
  library.find(barrier, "MPI_Ibarrier");
  library.find(bcast, "MPI_Ibcast");
  library.find(allgather, "MPI_Iallgather");
  library.find(allgatherv, "MPI_Iallgatherv");
  library.find(alltoallv, "MPI_Ialltoallv");
  library.find(allreduce, "MPI_Iallreduce");
  library.find(get_library_version, "MPI_Get_library_version");
  library.find(isend, "MPI_Isend");
  library.find(irecv, "MPI_Irecv");
  library.find(recv, "MPI_Recv");
  library.find(iprobe, "MPI_Iprobe");
  library.find(test, "MPI_Test");
  library.find(abort, "MPI_Abort");
  library.find(error_string, "MPI_Error_string");
  library.find(comm_world, "ompi_mpi_comm_world");
  library.find(info_null, "ompi_mpi_info_null");
  library.find(byte, "ompi_mpi_byte");
  library.find(float32, "ompi_mpi_float");
  library.find(op_sum, "ompi_mpi_op_sum");
}

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

void check_mpi(int result, const char* what) {
  if (result == kSuccess) return;
  std::array<char, kMaxText> text{};
  int length = 0;
  mpi().error_string(result, text.data(), &length);
  throw CommunicationError(
      fmt::format("{}: {}", what, std::string(text.data(), static_cast<std::size_t>(length))));
}

bool Counted::reaches(std::span<const Slice> slices) const {
  const auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());
  return std::ranges::all_of(slices, [&](const Slice& slice) { return slice.begin / unit_ <= most; });
}

int Counted::operator()(std::size_t bytes) const {
  const std::size_t count = bytes / unit_;
  INGOT_CHECK(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
              CommunicationError(fmt::format("{}: {} bytes are more than one message holds", what_, bytes)));
  return static_cast<int>(count);
}

Layout layout_of(std::span<const Slice> slices, const Counted& counted) {
  Layout layout;
  for (const Slice& slice : slices) {
    layout.counts.push_back(counted(slice.size()));
    layout.offsets.push_back(counted(slice.begin));
  }
  return layout;
}

std::vector<Slice> packed(std::span<const Slice> slices) {
  std::vector<Slice> close;
  close.reserve(slices.size());
  std::size_t at = 0;
  for (const Slice& slice : slices) {
    close.push_back({at, at + slice.size()});
    at += slice.size();
  }
  return close;
}

// NOLINTNEXTLINE(performance-no-int-to-ptr): MPI_IN_PLACE
void* in_place() { return reinterpret_cast<void*>(1); }

}  // namespace ingot::dist
