#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "ingot/base/shared_library.h"

namespace ingot::dist {

/// What ranks agree on to find each other: made by one, sent to all.
struct NcclId {
  std::array<char, 128> internal{};
};

/// The part of NCCL's C interface that is used here (nccl.h of 2.14 and later). Its handles are pointers that
/// nobody looks into, so that the functions are found without its headers or CUDA's.
struct Nccl {
  using Comm = void*;
  using CudaStream = void*;

  /// The beginning of ncclConfig_t, as NCCL 2.14 has it: newer ones take what a program knows of it.
  struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef, version = 21400;
    int blocking = 0;
    int unused = 0;
  };

  enum Result : int { success = 0, remote_error = 6, in_progress = 7 };
  enum Type : int { uint8 = 1, float16 = 6, float32 = 7, bfloat16 = 9 };
  static constexpr int kSum = 0;

  SharedLibrary library;
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(NcclId*) = nullptr;
  int (*comm_init_rank_config)(Comm*, int, NcclId, int, Config*) = nullptr;
  int (*comm_abort)(Comm) = nullptr;
  int (*comm_get_async_error)(Comm, int*) = nullptr;
  const char* (*get_error_string)(int) = nullptr;
  const char* (*get_last_error)(Comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, CudaStream) = nullptr;
  int (*reduce)(const void*, void*, std::size_t, int, int, int, Comm, CudaStream) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, Comm, CudaStream) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, Comm, CudaStream) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int, int, Comm, CudaStream) = nullptr;
  int (*send)(const void*, std::size_t, int, int, Comm, CudaStream) = nullptr;
  int (*receive)(void*, std::size_t, int, int, Comm, CudaStream) = nullptr;

  /// Looks for the library; what is missing is in problem().
  Nccl();
  /// Why NCCL is not used in this process; empty where it can be.
  std::string problem;
  int version = 0;  ///< 22003 for 2.20.3
  std::string version_text() const;
};

/// Opened at the first call.
const Nccl& nccl();

}  // namespace ingot::dist
