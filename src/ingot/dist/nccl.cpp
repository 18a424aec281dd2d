#include "ingot/dist/nccl.h"

#include <vector>

#include <fmt/format.h>

#include "ingot/base/env.h"

namespace ingot::dist {
namespace {

// Environment: INGOT_NCCL=0 | tensors of GPUs go between ranks over the hosts' memory, not with NCCL; a path
// is that of the libnccl.so.2 to open
std::string wanted() { return first_variable({"INGOT_NCCL"}); }

std::vector<std::string> names() {
  const std::string path = wanted();
  if (path == "0") return {};
  if (!path.empty() && path != "1") return {path};
  return {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"};
}

}  // namespace

Nccl::Nccl() : library(names()) {
  if (wanted() == "0") {
    problem = "INGOT_NCCL=0";
    return;
  }
  library.find(get_version, "ncclGetVersion");
  library.find(get_unique_id, "ncclGetUniqueId");
  library.find(comm_init_rank_config, "ncclCommInitRankConfig");
  library.find(comm_abort, "ncclCommAbort");
  library.find(comm_get_async_error, "ncclCommGetAsyncError");
  library.find(get_error_string, "ncclGetErrorString");
  library.find(get_last_error, "ncclGetLastError");
  library.find(group_start, "ncclGroupStart");
  library.find(group_end, "ncclGroupEnd");
  library.find(all_reduce, "ncclAllReduce");
  library.find(reduce, "ncclReduce");
  library.find(reduce_scatter, "ncclReduceScatter");
  library.find(all_gather, "ncclAllGather");
  library.find(broadcast, "ncclBroadcast");
  library.find(send, "ncclSend");
  library.find(receive, "ncclRecv");
  problem = library.problem();
  if (problem.empty() && get_version(&version) != success) problem = "NCCL does not tell its version";
}

std::string Nccl::version_text() const {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

const Nccl& nccl() {
  static const Nccl functions;
  return functions;
}

}  // namespace ingot::dist
