#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/shared_library.h"
#include "ingot/dist/communicator.h"

namespace ingot::dist {

// The part of Open MPI's C interface that is used here. Its handles are pointers to objects of the library,
// so that the functions are found without its headers, and a machine without MPI needs neither.
using Handle = void*;
struct Mpi {
  SharedLibrary library;
  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*finalized)(int*) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_split_type)(Handle, int, int, Handle, Handle*) = nullptr;
  int (*comm_split)(Handle, int, int, Handle*) = nullptr;
  int (*comm_free)(Handle*) = nullptr;
  int (*comm_dup)(Handle, Handle*) = nullptr;
  int (*win_allocate_shared)(std::ptrdiff_t, int, Handle, Handle, void*, Handle*) = nullptr;
  int (*win_shared_query)(Handle, int, std::ptrdiff_t*, int*, void*) = nullptr;
  int (*win_free)(Handle*) = nullptr;
  int (*barrier)(Handle, Handle*) = nullptr;
  int (*bcast)(void*, int, Handle, int, Handle, Handle*) = nullptr;
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle, Handle*) = nullptr;
  int (*allgatherv)(const void*, int, Handle, void*, const int*, const int*, Handle, Handle,
                    Handle*) = nullptr;
  int (*alltoallv)(const void*, const int*, const int*, Handle, void*, const int*, const int*, Handle, Handle,
                   Handle*) = nullptr;
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle, Handle*) = nullptr;
  int (*get_library_version)(char*, int*) = nullptr;
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*recv)(void*, int, Handle, int, int, Handle, void*) = nullptr;
  int (*iprobe)(int, int, Handle, int*, void*) = nullptr;
  int (*test)(Handle*, int*, void*) = nullptr;
  int (*abort)(Handle, int) = nullptr;
  int (*error_string)(int, char*, int*) = nullptr;
  char *comm_world = nullptr, *info_null = nullptr, *byte = nullptr, *float32 = nullptr, *op_sum = nullptr;

  explicit Mpi(std::span<const std::string> names);
};

/// Of this process, loaded when it is first asked for. CommunicationError where it is not there.
const Mpi& mpi();

/// CommunicationError with the library's text, unless it is a success.
void check_mpi(int result, const char* what);

/// What a message is counted in: four bytes where they divide its parts, since counts are of 31 bits.
class Counted {
 public:
  Counted(std::size_t bytes, const char* what) : Counted(std::array{Slice{0, bytes}}, what) {}
  Counted(std::span<const Slice> slices, const char* what) : what_(what) {
    bool words = true;
    for (const Slice& slice : slices) words = words && slice.begin % kWord == 0 && slice.end % kWord == 0;
    unit_ = words ? kWord : 1;
  }
  Handle type() const { return unit_ == kWord ? mpi().float32 : mpi().byte; }
  /// CommunicationError where one message cannot hold as many.
  int operator()(std::size_t bytes) const;
  /// Whether all of them begin where a message can tell it.
  bool reaches(std::span<const Slice> slices) const;

 private:
  static constexpr std::size_t kWord = 4;
  const char* what_;
  std::size_t unit_ = 1;
};

/// Where each rank's part begins, and how long it is.
struct Layout {
  std::vector<int> counts, offsets;
};
Layout layout_of(std::span<const Slice> slices, const Counted& counted);

/// Slices of the same sizes, one behind the other.
std::vector<Slice> packed(std::span<const Slice> slices);

/// MPI_IN_PLACE
void* in_place();

}  // namespace ingot::dist
