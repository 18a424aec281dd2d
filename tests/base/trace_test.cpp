#include "ingot/base/trace.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/scope.h"

namespace ingot {
namespace {

class TraceTest : public ::testing::Test {
 protected:
  const test::TemporaryDirectory folder_;
  const std::string path_ = folder_.at("trace.json");
};

TEST_F(TraceTest, ShowsScopesOfAThreadInsideOneAnother) {
  Trace trace(path_, {{"program", "a \"test\""}});
  {
    const Scope step(ScopeKind::step, "step", 7);
    const Scope layer(ScopeKind::module, "model.layers.0");
    {
      const Scope module(ScopeKind::module, "model.layers.0.mlp");
      const Scope op(ScopeKind::op, "silu \"quoted\"");
      EXPECT_EQ(current_module(), "model.layers.0.mlp");
      EXPECT_EQ(current_step(), 7);
    }
    const Scope other(ScopeKind::module, "lm_head");
  }
  trace.finish();
  const test::TraceFile file = test::read_trace(path_);
  EXPECT_EQ(file.count({"step step", "module model.layers.0", "module mlp", "op silu \"quoted\""}), 1);
  EXPECT_EQ(file.count({"module model.layers.0", "module lm_head"}), 1);
  ASSERT_NE(file.find("step", "step"), nullptr);
  EXPECT_EQ(file.find("step", "step")->args.at("number"), 7);
  EXPECT_EQ(file.find("module", "mlp")->args.at("module"), "model.layers.0.mlp");
}

TEST_F(TraceTest, GivesEachThreadARowWithItsName) {
  Trace trace(path_);
  const Scope scope(ScopeKind::work, "all");
  std::thread([] {
    trace::name_thread("reader");
    const Scope scope(ScopeKind::data, "read");
  }).join();
  parallel_for(64, 1, [](std::int64_t, std::int64_t) {});
  { const Scope last(ScopeKind::work, "last"); }
  trace.finish();
  const test::TraceFile file = test::read_trace(path_);
  EXPECT_EQ(file.count({"data read"}), 1);
  EXPECT_EQ(std::ranges::count(file.threads, "reader"), 1);
  EXPECT_EQ(std::ranges::count(file.threads, "main"), 1);
  // The parts of the parallel region, on whichever threads; "all" is still open.
  EXPECT_EQ(file.count({"work all"}), num_threads() > 1 ? std::min(num_threads(), 64) : 0);
}

TEST_F(TraceTest, OpensNoScopeWhereNobodyLooks) {
  const Scope scope(ScopeKind::module, "model");
  EXPECT_FALSE(scopes_watched());
  EXPECT_FALSE(scope.is_open());
  EXPECT_EQ(Scope::innermost(), nullptr);
  EXPECT_TRUE(current_module().empty());
}

TEST_F(TraceTest, LeavesOutScopesThatBeganBeforeIt) {
  const ScopeWatch other;
  const Scope early(ScopeKind::work, "early");
  Trace trace(path_);
  { const Scope scope(ScopeKind::work, "inside"); }
  trace.finish();
  const Scope late(ScopeKind::work, "late");
  const test::TraceFile file = test::read_trace(path_);
  EXPECT_EQ(file.spans.size(), 1U);
}

TEST_F(TraceTest, ShowsCountersAndRowsOfDevices) {
  Trace trace(path_);
  const auto at = trace::now();
  const std::array<std::int64_t, 2> sizes{2, 3}, same = sizes;
  const auto format = [](std::span<const std::byte> record) {
    return fmt::format("\"x\":\"f32[{}]\"", static_cast<int>(record[0]));
  };
  const auto details = trace::details(std::as_bytes(std::span(sizes)), format);
  EXPECT_EQ(trace::details(std::as_bytes(std::span(same)), format), details);
  trace::add({.kind = ScopeKind::kernel,
              .name = "matmul",
              .begin = at,
              .end = at + 1000,
              .details = details,
              .row = trace::row("cuda:0", "stream 1")});
  constexpr std::array<std::string_view, 2> kTags{"parameters", "other"};
  trace::counter("memory", kTags, std::array{10.0, 1e12});
  trace.finish();
  const test::TraceFile file = test::read_trace(path_);
  ASSERT_NE(file.find("kernel", "matmul"), nullptr);
  EXPECT_EQ(file.find("kernel", "matmul")->args.at("x"), "f32[2]");
  EXPECT_NEAR(file.find("kernel", "matmul")->end - file.find("kernel", "matmul")->begin, 1, 1e-6);
  EXPECT_EQ(file.counters, std::set<std::string>{"memory"});
  EXPECT_EQ(std::ranges::count(file.threads, "stream 1"), 1);
}

TEST_F(TraceTest, KeepsWhatManyThreadsRecordWhileItIsWritten) {
  constexpr int kThreads = 3, kScopes = 4500;  // more than a thread keeps before it is written
  Trace trace(path_);
  const std::vector<std::string> names{"first", "second", "third"};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (const std::string& name : names) {
    threads.emplace_back([&name] {
      for (int i = 0; i < kScopes; ++i) {
        const Scope scope(ScopeKind::work, name, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  trace.finish();
  const test::TraceFile file = test::read_trace(path_);
  for (const std::string& name : names) {
    std::set<std::int64_t> numbers;
    for (const auto& span : file.spans)
      if (span.name == name) numbers.insert(span.args.at("number").get<std::int64_t>());
    EXPECT_EQ(numbers.size(), static_cast<std::size_t>(kScopes)) << name;
  }
}

TEST_F(TraceTest, EndsWholeWhileThreadsGoOnRecordingScopesOfNewNames) {
  std::vector<std::jthread> threads;  // asked to stop where they go out of scope
  threads.reserve(3);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([t](const std::stop_token& stop) {
      for (int i = 0; !stop.stop_requested(); ++i) {
        const Scope scope(ScopeKind::work, fmt::format("name {} {}", t, i % 5000), i);
      }
    });
  }
  for (int round = 0; round < 6; ++round) {
    Trace trace(path_, {}, 5000);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    trace.finish();
    for (const auto& span : test::read_trace(path_).spans)
      ASSERT_EQ(span.name, fmt::format("name {} {}", span.name.at(5) - '0',
                                       span.args.at("number").get<std::int64_t>() % 5000));
  }
}

TEST_F(TraceTest, KeepsTheFirstEventsAndCountsThoseAfterThem) {
  Trace trace(path_, {}, 5000);
  for (int i = 0; i < 10'000; ++i) {
    const Scope scope(ScopeKind::work, "part", i);
  }
  trace.finish();
  const auto json = parse_json_or_discard<nlohmann::json>(read_file(path_));
  EXPECT_EQ(json.at("otherData").at("events_left_out"), 5000);
  const test::TraceFile file = test::read_trace(path_);
  ASSERT_EQ(file.spans.size(), 5000U);
  EXPECT_EQ(file.spans.back().args.at("number"), 4999);
}

TEST_F(TraceTest, TellsNamesApartThatStandInTheSameMemory) {
  Trace trace(path_);
  std::string name = "tensor a";
  for (const char letter : {'a', 'b', 'a', 'c'}) {
    name.back() = letter;
    const Scope scope(ScopeKind::file, name);
  }
  trace.finish();
  const test::TraceFile file = test::read_trace(path_);
  EXPECT_EQ(file.count({"file tensor a"}), 2);
  EXPECT_EQ(file.count({"file tensor b"}), 1);
  EXPECT_EQ(file.count({"file tensor c"}), 1);
}

TEST_F(TraceTest, ShowsModulesByTheirOwnPartAlsoWhereItNeedsEscapes) {
  Trace trace(path_);
  {
    const Scope layer(ScopeKind::module, "layer");
    const Scope module(ScopeKind::module, "layer.a \"b\"");
    const Scope other(ScopeKind::module, "layer.a \"b\"c");  // not inside of it
  }
  trace.finish();
  const test::TraceFile file = test::read_trace(path_);
  ASSERT_NE(file.find("module", "a \"b\""), nullptr);
  EXPECT_EQ(file.find("module", "a \"b\"")->args.at("module"), "layer.a \"b\"");
  EXPECT_NE(file.find("module", "layer.a \"b\"c"), nullptr);
}

TEST_F(TraceTest, SaysAtItsEndThatTheFileCouldNotBeWritten) {
  Trace trace("/dev/full");
  for (int i = 0; i < 9000; ++i) {
    const Scope scope(ScopeKind::work, "part", i);
  }
  EXPECT_THROW(trace.finish(), IoError);
  EXPECT_FALSE(trace::active());
}

TEST_F(TraceTest, LeavesNothingBesideItsFileWhereItIsNotFinished) {
  {
    const Trace trace(path_);
    const Scope scope(ScopeKind::work, "part");
  }
  const std::filesystem::directory_iterator files(std::filesystem::path(path_).parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_EQ(read_file(path_), "");
}

TEST_F(TraceTest, RefusesAPathThatCannotBeWrittenAndASecondTrace) {
  EXPECT_THROW(Trace(folder_.at("missing/trace.json")), IoError);
  EXPECT_FALSE(trace::active());
  {
    const Trace trace(path_);
    EXPECT_THROW(Trace(folder_.at("second.json")), Error);
    EXPECT_TRUE(trace::active());
  }
  EXPECT_FALSE(trace::active());
  EXPECT_FALSE(scopes_watched());
}

}  // namespace
}  // namespace ingot
