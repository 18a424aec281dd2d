#include "ingot/cli/ranks.h"

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/version.h"
#include "ingot/cli/command.h"
#include "ingot/cli/interrupt.h"
#include "ingot/dist/agreement.h"
#include "ingot/dist/processors.h"
#include "ingot/infer/tensor_parallel.h"
#include "ingot/runtime/compute_backend.h"
#include "ingot/train/trainer.h"

namespace ingot::cli {
namespace {

// Other programs, or other kernels, would give other bits and send other messages.
void check_programs_agree(dist::Communicator& ranks) {
  const MappedFile program("/proc/self/exe", MappedFile::Access::sequential);
  dist::check_agreement(
      ranks,
      {{"version", std::string(version())},
       {"program", fmt::format("{:08x}", crc32c(program.text()))},
       {"INGOT_BACKEND", std::string(compute_backend())}},
      "install the same build of Ingot on every machine, and name an INGOT_BACKEND that all "
      "of them have");
}

// A refused step comes to all ranks, and the first saves what was learned before.
void wait_for_first(dist::Communicator& ranks, const std::exception& error) {
  try {
    if (dynamic_cast<const StepRefused*>(&error) != nullptr) ranks.barrier();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the error is told all the same
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace

int run_as_ranks(dist::Communicator& ranks, bool json, FunctionRef<int()> work) {
  if (ranks.size() == 1) return work();
  int exit_code = 0;
  try {
    check_programs_agree(ranks);
    return work();
  } catch (const std::exception& error) {
    // Most errors come to all ranks; the first tells them, and ends those that wait for it.
    if (!ranks.is_first()) wait_for_first(ranks, error);
    fmt::print(stderr, "rank {} on {}: ", ranks.rank(), dist::host_name());
    exit_code = report_error(error, json);
  }
  ranks.abort(exit_code);
  return exit_code;  // for g++, which misses that it never returns
}

namespace {

// Each rank of a machine has its processors, with the memory near them.
void share_machine(const dist::Communicator& ranks, std::int64_t threads) {
  const std::vector<int> bound = dist::bind_to_numa_node(ranks.local_rank(), ranks.local_size());
  if (threads > 0) return;
  if (bound.empty()) return dist::share_threads(ranks.local_size());
  set_num_threads(static_cast<int>(bound.size()));
}

// The first fetches what is on a hub.
infer::SessionOptions session_of(dist::Communicator& ranks, FunctionRef<infer::SessionOptions()> session) {
  if (!ranks.is_first()) ranks.barrier();
  infer::SessionOptions options = session();
  if (ranks.is_first()) ranks.barrier();
  return options;
}

}  // namespace

int run_with_model(const InferenceOptions& o, bool json, FunctionRef<infer::SessionOptions()> session,
                   FunctionRef<int(const infer::SessionOptions&)> work) {
  if (o.tensor_parallel_size == 1 && !dist::is_launched()) return work(session());
  dist::Communicator& world = dist::world();
  return run_as_ranks(world, json, [&] {
    dist::Communicator& ranks = infer::tensor_parallel_ranks(o.tensor_parallel_size);
    share_machine(ranks, o.threads);
    const infer::SessionOptions options = session_of(ranks, session);
    if (ranks.is_first()) return work(options);
    ignore_interrupts();  // a launcher sends them to all, and the first rank decides
    infer::follow(options);
    return 0;
  });
}

}  // namespace ingot::cli
