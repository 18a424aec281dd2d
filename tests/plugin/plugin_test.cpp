#include "ingot/plugin/plugin.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/plugin/load_example.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/version.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/onnx/op.h"
#include "ingot/plugin/load.h"
#include "ingot/rl/named_environment.h"
#include "ingot/train/reporter.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::plugin_library;

std::string refusal(const std::string& path) {
  return test::message_of<InvalidConfig>([&] { load_plugin(path); });
}

TEST(Plugin, KernelIsAskedBeforeThoseThatAreThereAndKeepsTheContract) {
  const auto kernel = [] { return kernels::silu_mul.implementations(DeviceType::cpu); };
  const std::size_t before = kernel().size();
  LOAD_EXAMPLE("kernel");
  ASSERT_EQ(kernel().size(), before + 1);
  EXPECT_STREQ(kernel().front().name, "plugin_loop");
  const Tensor gate = Tensor::from(std::vector<float>{-2, 0, 0.5, 3}, {2, 2});
  const Tensor up = Tensor::from(std::vector<float>{1, 2, -3, 4}, {2, 2});
  const Tensor y = Tensor::empty({2, 2}), expected = Tensor::empty({2, 2});
  const kernels::SiluMulArgs args{.gate = gate.view(), .up = up.view(), .y = y.view()};
  kernels::launch(kernels::silu_mul, current_stream(kCpu), args);
  {
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    kernels::launch(kernels::silu_mul, current_stream(kCpu),
                    {.gate = gate.view(), .up = up.view(), .y = expected.view()});
  }
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(y.to_vector<float>()[i], expected.to_vector<float>()[i], 1e-6);
  EXPECT_FALSE(kernel().front().accepts({.gate = transposed(gate.view()), .up = up.view(), .y = y.view()}));
}

TEST(Plugin, OnnxOperatorIsKnown) {
  LOAD_EXAMPLE("onnx_op");
  const onnx::OpRow* row = onnx::find_op("com.example.SquaredRelu");
  ASSERT_NE(row, nullptr);
  const onnx::Node node{.op = "SquaredRelu", .domain = "com.example", .inputs = {"x"}, .outputs = {"y"}};
  const onnx::Values inputs{Tensor::from(std::vector<float>{-2, 3}, {2})};
  onnx::RunState state;
  const auto around = [](const std::string&) { return onnx::Value(); };
  const onnx::Values results = onnx::run_node(*row, onnx::OpCall(node, inputs, 17, around, state));
  EXPECT_EQ(results.at(0).tensor.to_vector<float>(), (std::vector<float>{0, 9}));
}

TEST(Plugin, WeightFormatIsOpenedAndItsDamageRefused) {
  LOAD_EXAMPLE("weight_format");
  const test::TemporaryDirectory folder;
  std::ofstream(folder.at("model.ttxt")) << "tensors as text\na 2 2 = 1 2 3 4\nb = 5\n";
  const auto weights = open_weights(folder.path());  // a directory's only file with weights
  ASSERT_EQ(weights->tensors().size(), 2U);
  EXPECT_EQ(weights->load_tensor("a").to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  std::ofstream(folder.at("bad.ttxt")) << "tensors as text\na 2 2 = 1 2 3\n";
  EXPECT_THROW(open_weights(folder.at("bad.ttxt")), FormatError);
  std::ofstream(folder.at("other.bin")) << "something else";
  EXPECT_NE(test::message_of<FormatError>([&] { open_weights(folder.at("other.bin")); }).find(".ttxt"),
            std::string::npos);
}

TEST(Plugin, ReporterIsANameForReportTo) {
  LOAD_EXAMPLE("reporter");
  const test::TemporaryDirectory folder;
  const auto reporters = make_reporters({"csv"});
  ASSERT_EQ(reporters.size(), 1U);
  RunInfo info;
  info.output_dir = folder.path();
  reporters[0]->begin(info);
  reporters[0]->step({.step = 3, .loss = 1.5, .learning_rate = 0.25});
  reporters[0]->flush();
  EXPECT_EQ(read_file(folder.at("loss.csv")), "step,loss,learning_rate\n3,1.5,0.25\n");
}

TEST(Plugin, EnvironmentIsPlayed) {
  LOAD_EXAMPLE("environment");
  const auto games = make_environment("nim", 2, 1);
  std::vector<float> observations(2), legal(6), rewards(4);
  std::vector<std::uint8_t> ended(2);
  int finished = 0;
  for (int i = 0; i < 30; ++i) {
    games->observe(observations, legal);
    games->step(std::vector<std::int32_t>{0, 0}, rewards, ended);
    for (std::size_t game = 0; game < 2; ++game) {
      finished += ended[game];
      EXPECT_EQ(rewards[2 * game] + rewards[2 * game + 1], 0);
    }
  }
  EXPECT_GT(finished, 0);
}

TEST(Plugin, LoadedTwiceIsThereOnceAndListed) {
  LOAD_EXAMPLE("environment");
  load_plugin(plugin_library("example_environment"));
  const auto same = [](const LoadedPlugin& plugin) {
    return plugin.path.ends_with("example_environment.so");
  };
  ASSERT_EQ(std::ranges::count_if(loaded_plugins(), same), 1);
  EXPECT_EQ(std::ranges::find_if(loaded_plugins(), same)->parts, std::vector<std::string>{"environment nim"});
}

TEST(Plugin, OfAnotherVersionIsRefusedWithBothVersions) {
  const std::string message = refusal(plugin_library("faulty_other_version"));
  EXPECT_NE(message.find("was built for Ingot 9.7, another ABI, but this is " INGOT_PLUGIN_ABI),
            std::string::npos)
      << message;
}

TEST(Plugin, WithoutAnEntryFunctionIsRefused) {
  const std::string message = refusal(plugin_library("faulty_no_entry"));
  EXPECT_NE(message.find("faulty_no_entry.so has no function ingot_plugin"), std::string::npos) << message;
}

TEST(Plugin, ThatNeedsWhatIngotLacksIsRefusedWithTheSymbol) {
  const std::string message = refusal(plugin_library("faulty_missing_symbol"));
  EXPECT_NE(message.find("no_such_function"), std::string::npos) << message;
}

TEST(Plugin, WithANameThatIsTakenIsRefused) {
  const std::string message = refusal(plugin_library("faulty_throws"));
  EXPECT_NE(message.find("'jsonl' is there already"), std::string::npos) << message;
}

TEST(Plugin, ThatIsNoSharedLibraryOrNotThereIsRefused) {
  const test::TemporaryDirectory folder;
  std::ofstream(folder.at("text.so")) << "not a library";
  EXPECT_NE(refusal(folder.at("text.so")).find("text.so is not a shared library"), std::string::npos);
  EXPECT_NE(refusal(folder.at("missing.so")).find("missing.so: No such file"), std::string::npos);
  EXPECT_NE(refusal(folder.path()).find("is not a shared library"), std::string::npos);
}

TEST(Plugin, InterfaceHasTheVersionOfThisIngot) {
  const std::string whole(version());
  EXPECT_TRUE(std::string(INGOT_PLUGIN_ABI).starts_with("Ingot " + whole.substr(0, whole.rfind('.')) + ","));
}

}  // namespace
}  // namespace ingot
