#include "tests/support/rank_launcher.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace ingot::test {
namespace {

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(length)};
}

}  // namespace

bool is_rank() { return std::getenv("INGOT_TEST_RANK") != nullptr; }
bool can_launch() { return std::system("command -v mpirun >/dev/null") == 0; }

int launch(const RankLaunch& launch) {
  const auto program = [&](int ranks, const std::string& more) {
    return fmt::format("-n {} env {} {} {} --gtest_filter='{}' --gtest_brief=1", ranks, launch.variables,
                       more, own_path(), launch.tests);
  };
  const std::string all = launch.of_last.empty()
                              ? program(launch.ranks, "")
                              : program(launch.ranks - 1, "") + " : " + program(1, launch.of_last);
  return std::system(
      fmt::format(
          "INGOT_TEST_RANK=1 INGOT_TEST_FOLDER={0} NCCL_STAND_IN_DIR={0} INGOT_NCCL={1} OMP_NUM_THREADS=1 "
          "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 90 mpirun "
          "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 {2} >{0}/out 2>{0}/said",
          launch.folder, INGOT_NCCL_STAND_IN, all)
          .c_str());
}

}  // namespace ingot::test
