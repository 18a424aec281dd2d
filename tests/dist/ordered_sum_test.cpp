#include "ingot/dist/ordered_sum.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/copy.h"

namespace ingot::dist {
namespace {

Tensor values_of(int rank, std::int64_t n, DType dtype) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<float>((i * 37 + rank * 101) % 1009) / 7.0F -
                     50.0F * static_cast<float>(rank));
  const Tensor x = Tensor::from(values, {n});
  const Tensor y = Tensor::empty({n}, dtype);
  kernels::launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view()});
  return y;
}

std::vector<float> floats(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape());
  kernels::launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view()});
  return y.to_vector<float>();
}

// These run in each of several processes; TheRanksAgree starts those.
bool is_rank() { return std::getenv("INGOT_TEST_RANK") != nullptr; }

TEST(Ranks, SumInTheirOrderWithTheBitsOfOneProcess) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.TheRanksAgree";
  Communicator& ranks = world();
  ASSERT_GT(ranks.size(), 1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n : {1, 63, 64, 1000, 4096}) {
      for (int passed_over = -1; passed_over < 2; ++passed_over) {
        for (const bool add : {false, true}) {
          std::vector<bool> contributes(static_cast<std::size_t>(ranks.size()), true);
          if (passed_over >= 0) contributes[static_cast<std::size_t>(passed_over)] = false;
          const Tensor expected = values_of(9, n, dtype), total = values_of(9, n, dtype);
          bool begun = add;
          for (int rank = 0; rank < ranks.size(); ++rank) {
            if (!contributes[static_cast<std::size_t>(rank)]) continue;
            const Tensor one = values_of(rank, n, dtype);
            kernels::launch(kernels::copy, current_stream(kCpu),
                            {.x = one.view(), .y = expected.view(), .accumulate = begun});
            begun = true;
          }
          ordered_sum(ranks, values_of(ranks.rank(), n, dtype), contributes, total, add);
          EXPECT_EQ(floats(total), floats(expected)) << n << " " << passed_over << " " << add;
        }
      }
    }
  }
}

TEST(Ranks, GatherTextsOfDifferentLengthsAndAskEachOther) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.TheRanksAgree";
  Communicator& ranks = world();
  const std::vector<std::string> all =
      ranks.all_gather(std::string(static_cast<std::size_t>(ranks.rank()) * 3, 'x'));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks.size()));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::string(3 * i, 'x'));
  EXPECT_TRUE(ranks.any(ranks.rank() == ranks.size() - 1));
  EXPECT_FALSE(ranks.any(false));
  std::array<std::byte, 5> data{};
  if (ranks.rank() == 1) data.fill(std::byte{7});
  ranks.broadcast(data, 1);
  EXPECT_EQ(data[4], std::byte{7});
  EXPECT_EQ(ranks.local_size(), ranks.size());
}

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(length)};
}

TEST(Launched, TheRanksAgree) {
  if (is_rank()) GTEST_SKIP() << "is what starts the others";
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  for (const int ranks : {2, 3}) {
    const std::string command =
        "INGOT_TEST_RANK=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n " +
        std::to_string(ranks) + " " + own_path() + " --gtest_filter='Ranks.*' --gtest_brief=1 >&2";
    EXPECT_EQ(std::system(command.c_str()), 0) << ranks << " ranks";
  }
}

TEST(Alone, IsOneRankThatKeepsWhatItHas) {
  const auto one = alone();
  EXPECT_EQ(one->size(), 1);
  EXPECT_TRUE(one->is_first());
  EXPECT_EQ(one->all_gather(std::string("text")), std::vector<std::string>{"text"});
  const Tensor total = values_of(1, 10, DType::f32);
  ordered_sum(*one, values_of(2, 10, DType::f32), {true}, total, false);
  EXPECT_EQ(floats(total), floats(values_of(2, 10, DType::f32)));
}

}  // namespace
}  // namespace ingot::dist
