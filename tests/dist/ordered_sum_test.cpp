#include "ingot/dist/ordered_sum.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/dist/agreement.h"
#include "ingot/dist/mpi_communicator.h"
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

Tensor clone_of(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), x.dtype());
  kernels::launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view()});
  return y;
}

// The last rank has the beginning, the first nothing.
std::vector<Slice> uneven(std::int64_t n) {
  const auto size = static_cast<std::size_t>(n), ranks = static_cast<std::size_t>(world().size());
  std::vector<Slice> slices(ranks, Slice{size, size});
  slices[ranks - 1] = {0, size / 3};
  slices[1] = {size / 3, size};
  return slices;
}

// These run in each of several processes; TheRanksAgree starts those.
bool is_rank() { return std::getenv("INGOT_TEST_RANK") != nullptr; }

TEST(Ranks, SumInTheirOrderWithTheBitsOfOneProcess) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.TheRanksAgree";
  Communicator& ranks = world();
  ASSERT_GT(ranks.size(), 1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n : {1, 63, 1000}) {
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
          for (const auto& slices : {equal_slices(static_cast<std::size_t>(n), ranks.size()), uneven(n)}) {
            const Tensor sum = clone_of(total);
            const Tensor own = slice_of(sum, slices[static_cast<std::size_t>(ranks.rank())]);
            ordered_reduce_scatter(ranks, values_of(ranks.rank(), n, dtype), slices, contributes, own, add);
            all_gather(ranks, sum, slices);
            EXPECT_EQ(floats(sum), floats(expected)) << n << " " << passed_over << " " << add;
          }
        }
      }
    }
  }
}

TEST(Ranks, MessagesInPiecesHaveTheBitsOfWholeOnes) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.TheRanksAgree";
  Communicator& ranks = world();
  constexpr std::int64_t kN = 5000;
  const std::vector<bool> contributes(static_cast<std::size_t>(ranks.size()), true);
  const std::size_t usual = ranks.message_bytes();
  for (const auto& slices : {equal_slices(kN, ranks.size()), uneven(kN)}) {
    std::vector<std::vector<float>> sums;
    std::vector<std::int64_t> operations;
    for (const std::size_t bytes : {usual, std::size_t{3000}}) {
      ranks.set_message_bytes(bytes);
      const std::int64_t before = ranks.position().operation;
      const Tensor values = values_of(ranks.rank(), kN, DType::f32);
      const Tensor own = slice_of(values, slices[static_cast<std::size_t>(ranks.rank())]);
      ordered_reduce_scatter(ranks, values, slices, contributes, own, false);
      all_gather(ranks, values, slices);
      sums.push_back(floats(values));
      operations.push_back(ranks.position().operation - before);
    }
    ranks.set_message_bytes(usual);
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(operations[0], 2);
    EXPECT_GE(operations[1], 2 * kN * 4 / 3000);  // each has 3000 bytes at most
  }
}

// Memory that nobody touches takes none.
TEST(Ranks, SendPartsOfTensorsOfWhichAMessageCannotTellWhereTheyBegin) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.TheRanksAgree";
  Communicator& ranks = world();
  constexpr std::size_t kApart = std::size_t{9} << 30, kPart = 1000;
  const auto count = static_cast<std::size_t>(ranks.size()), here = static_cast<std::size_t>(ranks.rank());
  const std::size_t bytes = kApart * count;
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space of " << bytes << " bytes";
  const std::span all(static_cast<std::byte*>(memory), bytes);
  const auto value = [](std::size_t from, std::size_t to) {
    return static_cast<std::byte>(10 * from + to + 1);
  };
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < count; ++i) {
    slices.push_back({i * kApart, i * kApart + kPart});
    std::ranges::fill(all.subspan(slices[i].begin, kPart), value(here, i));
  }
  std::vector<std::byte> received(count * kPart);
  ranks.all_to_all(all, slices, received);
  ranks.all_gather(all, slices);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(received[i * kPart], value(i, here));
    EXPECT_EQ(received[(i + 1) * kPart - 1], value(i, here));
    EXPECT_EQ(all[slices[i].begin], value(i, i));
    EXPECT_EQ(all[slices[i].end - 1], value(i, i));
  }
  munmap(memory, bytes);
}

TEST(Ranks, OfAGroupWorkBesideThoseOfOthers) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.TheRanksAgree";
  Communicator& ranks = world();
  const auto group = ranks.split(ranks.rank() % 2);
  EXPECT_EQ(group->size(), (ranks.size() + 1 - ranks.rank() % 2) / 2);
  EXPECT_EQ(group->rank(), ranks.rank() / 2);
  const std::vector<std::string> all = group->all_gather(std::to_string(ranks.rank()));
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i], std::to_string(2 * i + static_cast<std::size_t>(ranks.rank()) % 2));
  constexpr std::int64_t kN = 500;
  const std::vector<Slice> slices = equal_slices(kN, group->size());
  const Tensor sum = values_of(ranks.rank(), kN, DType::f32), expected = Tensor::zeros({kN});
  for (int rank = ranks.rank() % 2; rank < ranks.size(); rank += 2) {
    const Tensor one = values_of(rank, kN, DType::f32);
    kernels::launch(kernels::copy, current_stream(kCpu),
                    {.x = one.view(), .y = expected.view(), .accumulate = rank >= 2});
  }
  ordered_reduce_scatter(*group, sum, slices, std::vector<bool>(slices.size(), true),
                         slice_of(sum, slices[static_cast<std::size_t>(group->rank())]), false);
  all_gather(*group, sum, slices);
  EXPECT_EQ(floats(sum), floats(expected));
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

TEST(Ranks, NameWhatTheyDoNotAgreeOn) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.TheRanksAgree";
  Communicator& ranks = world();
  EXPECT_NO_THROW(check_agreement(ranks, {{"version", "1"}}, "install one"));
  const std::string version = ranks.rank() == 1 ? "2" : "1";
  const std::string message = test::message_of<InvalidConfig>([&] {
    check_agreement(ranks, {{"program", "a"}, {"version", version}}, "install one");
  });
  EXPECT_EQ(message, "invalid configuration: version: is 1 on rank 0 and 2 on rank 1; install one");
}

// The error is told on stderr, since no rank can end in order after it.
void tell_failed_barrier(Communicator& ranks) {
  try {
    ranks.barrier();
  } catch (const CommunicationError& error) {
    if (!ranks.is_first()) std::this_thread::sleep_for(std::chrono::seconds(20));  // the first tells it
    std::fprintf(stderr, "%s\n", error.what());
    ranks.abort(3);
  }
}

// Rank 1 stays away.
TEST(LateRank, IsNamedWithWhatTheOthersWaitIn) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.ALateRankIsNamed";
  Communicator& ranks = world();
  ranks.set_timeout(0.3);
  ranks.set_activity("step 5");
  if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
  tell_failed_barrier(ranks);
}

// Rank 1 does not come to the second barrier.
TEST(SilentRank, IsMissedLongBeforeTheTimeOut) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.AStoppedRankIsNamedWithItsLastOperation";
  Communicator& ranks = world();
  ranks.barrier();
  std::this_thread::sleep_for(std::chrono::seconds(2));  // in which it tells of the barrier
  if (ranks.rank() == 1) kill(getpid(), SIGSTOP);
  tell_failed_barrier(ranks);
}

// Rank 1 stops for longer than it may be silent, while nobody waits for it.
TEST(ForgivenRank, GoesOnWithTheOthers) {
  if (!is_rank()) GTEST_SKIP() << "run by Launched.ARankThatIsHeardAgainGoesOnWithTheOthers";
  Communicator& ranks = world();
  ranks.barrier();
  if (ranks.rank() == 1) {
    if (const pid_t stopped = getpid(); fork() == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      kill(stopped, SIGCONT);
      _exit(0);
    }
    kill(getpid(), SIGSTOP);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    EXPECT_TRUE(ranks.another_gave_up());
    std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    EXPECT_FALSE(ranks.another_gave_up());
  }
  ranks.barrier();
}

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(length)};
}

// This program as so many ranks, with a deadline.
std::string mpirun(int ranks, const std::string& tests) {
  return "INGOT_TEST_RANK=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 60 mpirun "
         "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n " +
         std::to_string(ranks) + " " + own_path() + " --gtest_filter='" + tests + "' --gtest_brief=1";
}

TEST(Launched, TheRanksAgree) {
  if (is_rank()) GTEST_SKIP() << "is what starts the others";
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  EXPECT_EQ(std::system((mpirun(3, "Ranks.*") + " >&2").c_str()), 0);
}

TEST(Launched, ALateRankIsNamed) {
  if (is_rank()) GTEST_SKIP() << "is what starts the others";
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  const test::TemporaryDirectory folder;
  const std::string said = folder.at("said");
  EXPECT_NE(std::system((mpirun(3, "LateRank.*") + " 2>" + said + " >/dev/null").c_str()), 0);
  const std::string text = read_file(said);
  EXPECT_NE(text.find("ranks 0, 2 waited"), std::string::npos) << text;
  EXPECT_NE(text.find("in the barrier"), std::string::npos) << text;
  EXPECT_NE(text.find("of step 5: rank 1 on "), std::string::npos) << text;
}

TEST(Launched, AStoppedRankIsNamedWithItsLastOperation) {
  if (is_rank()) GTEST_SKIP() << "is what starts the others";
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  const test::TemporaryDirectory folder;
  const std::string said = folder.at("said");
  const std::string command =
      "INGOT_RANK_SILENCE=5 " + mpirun(3, "SilentRank.*") + " 2>" + said + " >/dev/null";
  EXPECT_NE(std::system(command.c_str()), 0);
  const std::string text = read_file(said);
  EXPECT_NE(text.find("nothing was heard of rank 1 on "), std::string::npos) << text;
  EXPECT_NE(text.find("behind its barrier (number "), std::string::npos) << text;
  EXPECT_NE(text.find("or raise INGOT_RANK_SILENCE"), std::string::npos) << text;
}

TEST(Launched, ARankThatIsHeardAgainGoesOnWithTheOthers) {
  if (is_rank()) GTEST_SKIP() << "is what starts the others";
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  EXPECT_EQ(std::system(("INGOT_RANK_SILENCE=2 " + mpirun(3, "ForgivenRank.*") + " >&2").c_str()), 0);
}

TEST(Alone, IsOneRankThatKeepsWhatItHas) {
  const auto one = alone();
  EXPECT_EQ(one->size(), 1);
  EXPECT_TRUE(one->is_first());
  EXPECT_EQ(one->all_gather(std::string("text")), std::vector<std::string>{"text"});
  const Tensor total = values_of(1, 10, DType::f32);
  const auto slices = equal_slices(10, 1);
  ordered_reduce_scatter(*one, values_of(2, 10, DType::f32), slices, {true}, total, false);
  all_gather(*one, total, slices);
  EXPECT_EQ(floats(total), floats(values_of(2, 10, DType::f32)));
}

}  // namespace
}  // namespace ingot::dist
