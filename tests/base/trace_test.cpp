#include "ingot/base/trace.h"

#include <filesystem>
#include <thread>

#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
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
  const auto details = trace::details("key", [] { return std::string("\"x\":\"f32[2]\""); });
  EXPECT_EQ(trace::details("key", [] { return std::string("not asked for"); }), details);
  trace::add({.kind = ScopeKind::kernel,
              .name = "matmul",
              .begin = at,
              .end = at + 1000,
              .details = details,
              .row = trace::row("cuda:0", "stream 1")});
  trace::counter("memory", {{"parameters", 10}, {"other", 1e12}});
  trace.finish();
  const test::TraceFile file = test::read_trace(path_);
  ASSERT_NE(file.find("kernel", "matmul"), nullptr);
  EXPECT_EQ(file.find("kernel", "matmul")->args.at("x"), "f32[2]");
  EXPECT_NEAR(file.find("kernel", "matmul")->end - file.find("kernel", "matmul")->begin, 1, 1e-6);
  EXPECT_EQ(file.counters, std::set<std::string>{"memory"});
  EXPECT_EQ(std::ranges::count(file.threads, "stream 1"), 1);
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
