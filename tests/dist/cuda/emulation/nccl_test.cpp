#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/rank_launcher.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/dist/check.h"
#include "ingot/dist/device_ranks.h"
#include "ingot/dist/mpi_communicator.h"
#include "ingot/dist/ordered_sum.h"
#include "ingot/kernels/copy.h"
#include "ingot/ops/cast.h"

// The communicator over NCCL between ranks with an emulated GPU each; NCCL is the stand-in of the tests.
namespace ingot::dist {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

// Values whose sum depends on its order.
Tensor host_values(int rank, std::int64_t n, DType dtype) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<float>((i * 37 + rank * 101) % 1009) / 7.0F + (rank == 1 ? 3e5F : -9.0F));
  const Tensor x = Tensor::from(values, {n}), y = Tensor::empty({n}, dtype);
  kernels::launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view()});
  return y;
}
Tensor device_values(int rank, std::int64_t n, DType dtype) {
  const Tensor x = to(host_values(rank, n, dtype), kGpu);
  backend(kGpu).synchronize(current_stream(kGpu));
  return x;
}

std::vector<float> floats(const Tensor& x) {
  const Tensor host = to(x, kCpu), y = Tensor::empty(x.shape());
  kernels::launch(kernels::copy, current_stream(kCpu), {.x = host.view(), .y = y.view()});
  return y.to_vector<float>();
}

std::span<std::byte> bytes_of(const Tensor& x) { return {x.view().as<std::byte>(), x.nbytes()}; }

Communicator& connected() {
  connect_devices(world(), kGpu);
  return world();
}

std::vector<Slice> uneven(std::int64_t n) {
  const auto size = static_cast<std::size_t>(n), ranks = static_cast<std::size_t>(world().size());
  std::vector<Slice> slices(ranks, Slice{size, size});
  slices[ranks - 1] = {0, size / 3};
  slices[0] = {size / 3, size};
  return slices;
}

#define ONLY_AS_RANK() \
  if (!test::is_rank()) GTEST_SKIP() << "run by the launching tests"

TEST(NcclRanks, SumInTheOrderOfRanksWithTheBitsOfOneProcess) {
  ONLY_AS_RANK();
  Communicator& ranks = connected();
  ASSERT_NE(ranks.of(kGpu), nullptr);
  EXPECT_EQ(ranks.of(kGpu)->engine(), "NCCL 2.20.3");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n : {1, 640, 1000}) {
      for (const bool add : {false, true}) {
        std::vector<bool> contributes(static_cast<std::size_t>(ranks.size()), true);
        contributes[0] = add;
        const Tensor expected = host_values(9, n, dtype);
        bool begun = add;
        for (int rank = 0; rank < ranks.size(); ++rank) {
          if (!contributes[static_cast<std::size_t>(rank)]) continue;
          kernels::launch(
              kernels::copy, current_stream(kCpu),
              {.x = host_values(rank, n, dtype).view(), .y = expected.view(), .accumulate = begun});
          begun = true;
        }
        for (const auto& slices : {equal_slices(static_cast<std::size_t>(n), ranks.size()), uneven(n)}) {
          const Tensor sum = device_values(9, n, dtype);
          const Tensor own = slice_of(sum, slices[static_cast<std::size_t>(ranks.rank())]);
          ordered_reduce_scatter(ranks, device_values(ranks.rank(), n, dtype), slices, contributes, own, add);
          all_gather(ranks, sum, slices);
          EXPECT_EQ(floats(sum), floats(expected)) << n << " " << add;
        }
      }
    }
  }
}

TEST(NcclRanks, SumInNcclsOrderWhereThatIsAsked) {
  ONLY_AS_RANK();
  Communicator& ranks = connected();
  const std::int64_t n = 128 * ranks.size();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& slices : {equal_slices(static_cast<std::size_t>(n), ranks.size()), uneven(n)}) {
      for (const bool add : {false, true}) {
        std::vector<bool> contributes(static_cast<std::size_t>(ranks.size()), true);
        contributes[1] = false;
        const Tensor sum = device_values(9, n, dtype);
        const Tensor own = slice_of(sum, slices[static_cast<std::size_t>(ranks.rank())]);
        fast_reduce_scatter(ranks, device_values(ranks.rank(), n, dtype), slices, contributes, own, add);
        all_gather(ranks, sum, slices);
        std::vector<float> expected(static_cast<std::size_t>(n), 0.0F);
        if (add) expected = floats(host_values(9, n, dtype));
        for (int rank = 0; rank < ranks.size(); ++rank) {
          if (rank == 1) continue;
          const std::vector<float> part = floats(host_values(rank, n, dtype));
          for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += part[i];
        }
        const std::vector<float> got = floats(sum);
        const float tolerance = dtype == DType::f32 ? 1e-3F : 4.0F;
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << i;
      }
    }
  }
}

TEST(NcclRanks, MoveBytesBetweenEachOther) {
  ONLY_AS_RANK();
  Communicator& ranks = connected();
  Communicator& gpus = *ranks.of(kGpu);
  const auto count = static_cast<std::int64_t>(ranks.size());
  const Tensor mine =
      Tensor::from(std::vector<std::uint8_t>(5, static_cast<std::uint8_t>(ranks.rank() + 1)), {5});
  const Tensor own = to(mine, kGpu), all = Tensor::empty({5 * count}, DType::u8, kGpu);
  backend(kGpu).synchronize(current_stream(kGpu));
  gpus.all_gather(bytes_of(own), bytes_of(all));
  std::vector<std::uint8_t> values = to(all, kCpu).to_vector<std::uint8_t>();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i / 5 + 1);
  gpus.broadcast(bytes_of(own), 1);
  EXPECT_EQ(to(own, kCpu).to_vector<std::uint8_t>(), std::vector<std::uint8_t>(5, 2));
  if (ranks.rank() == 0) gpus.send(bytes_of(all), ranks.size() - 1);
  if (ranks.rank() == ranks.size() - 1) {
    const Tensor got = Tensor::zeros({5 * count}, DType::u8, kGpu);
    backend(kGpu).synchronize(current_stream(kGpu));
    gpus.receive(bytes_of(got), 0);
    EXPECT_EQ(to(got, kCpu).to_vector<std::uint8_t>(), values);
  }
  gpus.barrier();
}

TEST(NcclRanks, SumTheSameValueEverywhere) {
  ONLY_AS_RANK();
  Communicator& ranks = connected();
  const Tensor x = Tensor::from(std::vector<float>(7, static_cast<float>(ranks.rank() + 1)), {7}, kGpu);
  backend(kGpu).synchronize(current_stream(kGpu));
  all_reduce(ranks, x);
  const auto n = static_cast<float>(ranks.size());
  EXPECT_EQ(floats(x), std::vector<float>(7, n * (n + 1) / 2));
}

TEST(NcclRanks, AreRightInACheckOfEveryOperation) {
  ONLY_AS_RANK();
  Communicator& ranks = connected();
  for (const Device device : {kCpu, kGpu}) {
    const std::vector<CheckedOperation> rows = check_operations(ranks, device, 1000);
    EXPECT_EQ(rows.size(), device == kCpu ? 6U : 7U);  // NCCL has sums in an order of its own
    for (const CheckedOperation& row : rows) EXPECT_TRUE(row.right) << row.name;
  }
}

// Ranks tell their error on stderr, since none can end in order after it.
[[noreturn]] void tell_and_end(const std::exception& error) {
  if (!world().is_first()) std::this_thread::sleep_for(std::chrono::seconds(20));  // the first tells it
  std::fprintf(stderr, "%s\n", error.what());
  world().abort(3);
  std::_Exit(3);
}

TEST(NcclFault, InAnOperation) {
  ONLY_AS_RANK();
  Communicator& ranks = connected();
  ranks.set_timeout(0.5);
  ranks.set_activity("step 5");
  const Tensor x = device_values(ranks.rank(), 100, DType::f32);
  all_reduce(ranks, x);
  const char* fault = std::getenv("TEST_FAULT");
  const std::string kind = fault != nullptr ? fault : "";
  if (kind == "hang") std::this_thread::sleep_for(std::chrono::seconds(30));
  if (kind == "kill") raise(SIGKILL);
  try {
    all_reduce(ranks, x);
  } catch (const Error& error) {
    tell_and_end(error);
  }
}

TEST(NcclFault, AtTheStart) {
  ONLY_AS_RANK();
  const std::size_t before = backend(kGpu).memory().allocated();
  try {
    connected();
  } catch (const Error& error) {
    if (backend(kGpu).memory().allocated() != before) tell_and_end(Error("memory of the device was left"));
    tell_and_end(error);
  }
}

TEST(NcclFault, GoesOnWithoutTheLibrary) {
  ONLY_AS_RANK();
  Communicator& ranks = connected();
  EXPECT_EQ(ranks.of(kGpu), nullptr);
  const Tensor x = Tensor::from(std::vector<float>(7, 1.0F), {7}, kGpu);
  backend(kGpu).synchronize(current_stream(kGpu));
  all_reduce(ranks, x);
  EXPECT_EQ(floats(x), std::vector<float>(7, static_cast<float>(ranks.size())));
}

class Launched : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::is_rank()) GTEST_SKIP() << "is what starts the others";
    if (!test::can_launch()) GTEST_SKIP() << "mpirun is not installed";
  }
  std::string said() const { return read_file(folder_.at("said")); }
  std::string out() const { return read_file(folder_.at("out")); }
  int run(int ranks, const std::string& tests, const std::string& variables = "",
          const std::string& of_last = "") const {
    return test::launch({.ranks = ranks,
                         .tests = tests,
                         .folder = folder_.path(),
                         .variables = variables,
                         .of_last = of_last});
  }
  const test::TemporaryDirectory folder_;
};

TEST_F(Launched, TwoRanksDoEveryOperation) { EXPECT_EQ(run(2, "NcclRanks.*"), 0) << out() << said(); }
TEST_F(Launched, FourRanksDoEveryOperation) { EXPECT_EQ(run(4, "NcclRanks.*"), 0) << out() << said(); }

TEST_F(Launched, ARankThatHangsIsNamedWithTheOperation) {
  EXPECT_NE(run(3, "NcclFault.InAnOperation", "", "TEST_FAULT=hang"), 0);
  EXPECT_NE(said().find("ranks 0, 1 waited 0.5"), std::string::npos) << said();
  EXPECT_NE(said().find("in the all-reduce over NCCL (number 3) of step 5: rank 2 on "), std::string::npos)
      << said();
}

TEST_F(Launched, ARankThatIsKilledEndsTheOthers) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(run(3, "NcclFault.InAnOperation", "", "TEST_FAULT=kill"), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_NE(said().find("rank 2"), std::string::npos) << said();
}

TEST_F(Launched, ARankThatNcclLostIsNamed) {
  EXPECT_NE(run(2, "NcclFault.InAnOperation", "NCCL_STAND_IN_FAULT=remote:2", "TEST_FAULT=hang"), 0);
  EXPECT_NE(said().find("rank 1 on "), std::string::npos) << said();
  EXPECT_NE(said().find("NCCL says: remote process exited"), std::string::npos) << said();
}

TEST_F(Launched, NcclThatCannotStartSaysWhy) {
  EXPECT_NE(run(2, "NcclFault.AtTheStart", "NCCL_STAND_IN_FAULT=init"), 0);
  EXPECT_NE(said().find("rank 0 on "), std::string::npos) << said();
  EXPECT_NE(said().find("the connection over NCCL"), std::string::npos) << said();
  EXPECT_NE(said().find("unhandled cuda error: no CUDA device"), std::string::npos) << said();
}

TEST_F(Launched, AGpuThatTwoRanksHaveIsRefused) {
  EXPECT_NE(run(2, "NcclFault.AtTheStart", "EMULATED_GPU_ADDRESS=0000:01:00.0"), 0);
  EXPECT_NE(said().find("device: ranks 0 and 1 on "), std::string::npos) << said();
}

TEST_F(Launched, GpusOfTwoKindsAreRefused) {
  EXPECT_NE(run(2, "NcclFault.AtTheStart", "", "EMULATED_GPU_NAME=other"), 0);
  EXPECT_NE(said().find("has cuda:0 (other)"), std::string::npos) << said();
}

TEST_F(Launched, WithoutTheLibraryMemoryGoesOverTheHostsAndTheFirstSaysSo) {
  EXPECT_EQ(run(2, "NcclFault.GoesOnWithoutTheLibrary", "INGOT_NCCL=/nowhere/libnccl.so.2"), 0)
      << out() << said();
  const std::string text = said();
  const std::size_t first = text.find("over the hosts' memory");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("/nowhere/libnccl.so.2"), std::string::npos) << text;
  EXPECT_EQ(text.find("over the hosts' memory", first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace ingot::dist
