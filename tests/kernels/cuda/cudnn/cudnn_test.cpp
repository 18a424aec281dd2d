#include "ingot/kernels/cuda/libraries/cudnn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

// What we tell cuDNN is something that it has engines for on a Hopper GPU. It says so without one, of a
// device that is described to it; nothing is computed here. Numbers are compared where there is a GPU, by
// the op cases, which run every implementation.
namespace ingot::kernels::cuda {
namespace {

DnnDescription hopper_description() {
  return {
      .json =
          R"({"deviceVer":900,"driverVer":13000,"cudaDeviceId":0,"totalGlobalMem":85000000000,)"
          R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
          R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
          R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
          R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
          R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)"
          R"("memClockRateKHz":2619000,"l2CacheSize":52428800,"deviceName":"NVIDIA H100 80GB HBM3"})",
      .architecture = 90,
      .memory = 85000000000};
}

DnnDevice& hopper() {
  static DnnDevice device(hopper_description());
  return device;
}

/// A tensor whose memory nobody looks at.
View view_of(std::initializer_list<std::int64_t> shape, DType dtype) {
  View view;
  view.data = reinterpret_cast<void*>(0x10000);  // NOLINT(performance-no-int-to-ptr)
  view.dtype = dtype;
  view.device = {DeviceType::cuda, 0};
  for (const std::int64_t size : shape) view.shape[static_cast<std::size_t>(view.rank++)] = size;
  std::int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[static_cast<std::size_t>(i)] = stride;
    stride *= view.dim(i);
  }
  return view;
}

template <class Args>
std::string problem(const Args& args, DnnDevice& device = hopper()) {
  const auto operation = dnn_operation(args);
  return operation == nullptr ? "not said in cuDNN's words" : device.problem(*operation);
}

struct Heads {
  std::int64_t batch, queries, keys, query_heads, key_heads, size;
};

AttentionArgs attention_of(const Heads& s, DType dtype = DType::bf16) {
  return {.q = view_of({s.batch, s.queries, s.query_heads, s.size}, dtype),
          .k = view_of({s.batch, s.keys, s.key_heads, s.size}, dtype),
          .v = view_of({s.batch, s.keys, s.key_heads, s.size}, dtype),
          .out = view_of({s.batch, s.queries, s.query_heads, s.size}, dtype),
          .lse = view_of({s.batch, s.query_heads, s.queries}, DType::f32),
          .scale = 0.125F};
}
AttentionBackwardArgs backward_of(const AttentionArgs& args) {
  return {.q = args.q,
          .k = args.k,
          .v = args.v,
          .out = args.out,
          .lse = args.lse,
          .dout = args.out,
          .dq = args.q,
          .dk = args.k,
          .dv = args.v,
          .mask = args.mask,
          .scale = args.scale};
}
void expect_engines(const AttentionArgs& args, const char* what) {
  EXPECT_EQ(problem(args), "") << what;
  EXPECT_EQ(problem(backward_of(args)), "") << what << ", backward";
}

constexpr Heads kLlama{2, 4096, 4096, 32, 8, 128};

TEST(CudnnAttention, TrainedShapesHaveEngines) {
  expect_engines(attention_of({4, 1024, 1024, 12, 12, 64}), "GPT-2");
  expect_engines(attention_of({4, 1000, 1000, 12, 12, 64}), "an odd length");
  expect_engines(attention_of(kLlama), "Llama");
  expect_engines(attention_of(kLlama, DType::f16), "Llama in f16");
  expect_engines(attention_of({1, 8192, 8192, 16, 8, 128}), "8k");
  expect_engines(attention_of({2, 512, 512, 8, 8, 80}), "heads of 80");
  expect_engines(attention_of({2, 512, 512, 8, 1, 256}), "heads of 256");
}

TEST(CudnnAttention, EveryMaskOfTheContractThatItIsGivenHasEngines) {
  AttentionArgs args = attention_of(kLlama);
  args.mask.window = 1024;
  expect_engines(args, "window");
  args.mask = {.causal = false};
  expect_engines(args, "no mask");
  expect_engines(attention_of({2, 256, 1024, 8, 8, 64}), "more keys than queries");
}

// A view's tokens as far apart as those of a projection for q, k and v.
void lie_in_projection(View& view, const Heads& s) {
  const std::int64_t row = (s.query_heads + 2 * s.key_heads) * s.size;
  view.strides[1] = row;
  view.strides[0] = row * s.keys;
}

TEST(CudnnAttention, HeadsOfAFusedProjectionHaveEngines) {
  for (const Heads& heads : {Heads{4, 1024, 1024, 12, 12, 64}, Heads{2, 4096, 4096, 32, 8, 64}, kLlama}) {
    AttentionArgs args = attention_of(heads);
    for (View* view : {&args.q, &args.k, &args.v}) lie_in_projection(*view, heads);
    expect_engines(args, "fused");
  }
}

// Where q and k were normalized, v alone lies in the projection, and no gradient does.
TEST(CudnnAttention, ValuesOfAFusedProjectionHaveEngines) {
  AttentionArgs args = attention_of(kLlama);
  AttentionBackwardArgs backward = backward_of(args);
  lie_in_projection(args.v, kLlama);
  lie_in_projection(backward.v, kLlama);
  EXPECT_EQ(problem(args), "");
  EXPECT_EQ(problem(backward), "");
}

// Gradients in a fixed order take memory for every query and key, 17 GB here: our own kernels take none.
TEST(CudnnAttention, GradientsThatWouldTakeMuchMemoryAreRefused) {
  const AttentionArgs args = attention_of({1, 16384, 16384, 32, 8, 128});
  EXPECT_EQ(problem(args), "");
  EXPECT_NE(problem(backward_of(args)).find("workspace"), std::string::npos) << problem(backward_of(args));
}

// Four sequences of 4096 tokens would take 4.3 GB, more than a 32nd of the GPU.
TEST(CudnnAttention, GradientsOfABatchThatIsTooLargeGoInParts) {
  const auto parts = [](const Heads& sizes) {
    return dnn_batch_parts(hopper(), backward_of(attention_of(sizes)));
  };
  EXPECT_EQ(parts({2, 4096, 4096, 32, 8, 128}), 1);
  EXPECT_EQ(parts({4, 4096, 4096, 32, 8, 128}), 2);
  EXPECT_EQ(parts({8, 4096, 4096, 32, 8, 128}), 4);
  EXPECT_EQ(parts({3, 8192, 8192, 32, 8, 128}), 0) << "one of three would not fit either";
  EXPECT_EQ(parts({1, 16384, 16384, 32, 8, 128}), 0);
}

TEST(CudnnAttention, OneQueryHasEnginesWithoutAMaskAndNoneWithAWindow) {
  AttentionArgs args = attention_of({2, 1, 64, 8, 2, 64});
  EXPECT_EQ(problem(args), "");
  args.mask.window = 16;
  EXPECT_EQ(dnn_operation(args), nullptr);
}

// cuDNN's would be NaN for queries whose scores are all far below zero.
TEST(CudnnAttention, UnmaskedGradientsOfOneQueryOrOfKeysThatEndInHalfATileAreLeftToOthers) {
  const auto takes = [](std::int64_t queries, std::int64_t keys, bool causal) {
    AttentionArgs args = attention_of({2, queries, keys, 8, 8, 64});
    args.mask.causal = causal;
    EXPECT_NE(dnn_operation(args), nullptr) << "forward, " << queries << " queries of " << keys;
    return dnn_operation(backward_of(args)) != nullptr;
  };
  for (const std::int64_t keys : {64, 192, 1216}) {
    EXPECT_FALSE(takes(64, keys, false)) << keys;
    EXPECT_TRUE(takes(64, keys, true)) << keys;
  }
  for (const std::int64_t keys : {128, 256, 1000, 1088 + 63}) EXPECT_TRUE(takes(64, keys, false)) << keys;
  for (const bool causal : {false, true}) EXPECT_FALSE(takes(1, 128, causal));
}

TEST(CudnnAttention, WhatItsWordsCannotSayIsLeftToOthers) {
  const AttentionArgs plain = attention_of(kLlama);
  AttentionArgs args = plain;
  args.mask.doc_start = view_of({2, 4096}, DType::i32);
  EXPECT_EQ(dnn_operation(args), nullptr) << "documents";
  args = plain;
  args.mask.kv_length = view_of({2}, DType::i32);
  EXPECT_EQ(dnn_operation(args), nullptr) << "a cache that is not full";
  args = plain;
  args.softcap = 30;
  EXPECT_EQ(dnn_operation(args), nullptr) << "soft cap";
  args = plain;
  args.lse = {};
  EXPECT_EQ(dnn_operation(args), nullptr) << "without gradients";
  EXPECT_EQ(dnn_operation(attention_of(kLlama, DType::f32)), nullptr) << "f32";
  EXPECT_EQ(dnn_operation(attention_of({2, 64, 32, 8, 8, 64})), nullptr) << "queries that see nothing";
  EXPECT_EQ(dnn_operation(attention_of({2, 64, 64, 8, 8, 60})), nullptr) << "heads of 60";
  args = plain;
  args.v.data = static_cast<std::byte*>(args.v.data) + 2;
  EXPECT_EQ(dnn_operation(args), nullptr) << "rows that are not aligned";
  AttentionBackwardArgs adding = backward_of(plain);
  adding.accumulate_dk = true;
  EXPECT_EQ(dnn_operation(adding), nullptr) << "adding to a gradient";
}

TEST(CudnnAttention, WhatCannotBeIsRefusedWithAReason) {
  AttentionArgs args = attention_of(kLlama);
  args.k.shape[3] = 64;  // other than q's
  EXPECT_NE(problem(args), "");
}

struct Conv {
  DType dtype;
  bool channels_last, bias;
  std::int64_t inputs, outputs, groups, taps, stride = 1;
};

void expect_engines(const Conv& c) {
  const ConvGeometry geometry{.stride = {c.stride, c.stride},
                              .padding = {c.taps / 2, c.taps / 2},
                              .groups = c.groups,
                              .channels_last = c.channels_last};
  const auto image = [&](std::int64_t channels, std::int64_t side) {
    return c.channels_last ? view_of({8, side, side, channels}, c.dtype)
                           : view_of({8, channels, side, side}, c.dtype);
  };
  const View x = image(c.inputs, 32), y = image(c.outputs, 32 / c.stride);
  const View weight = view_of({c.outputs, c.inputs / c.groups, c.taps, c.taps}, c.dtype);
  const View bias = c.bias ? view_of({c.outputs}, c.dtype) : View{};
  const std::string what = fmt::format(
      "{}, channels {}, bias {}, {} to {} channels, {} groups, {} taps, stride {}", name(c.dtype),
      c.channels_last ? "last" : "first", c.bias, c.inputs, c.outputs, c.groups, c.taps, c.stride);
  EXPECT_EQ(problem(ConvArgs{.x = x, .weight = weight, .bias = bias, .y = y, .geometry = geometry}), "")
      << what;
  EXPECT_EQ(problem(ConvBackwardDataArgs{.weight = weight, .dy = y, .dx = x, .geometry = geometry}), "")
      << what << ", gradient of the input";
  EXPECT_EQ(problem(ConvBackwardWeightArgs{.x = x, .dy = y, .dweight = weight, .geometry = geometry}), "")
      << what << ", gradient of the weight";
}

TEST(CudnnConv, EveryLayoutDtypeAndNumberOfGroupsHasEngines) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const bool channels_last : {false, true})
      for (const bool bias : {false, true}) {
        expect_engines(Conv{dtype, channels_last, bias, 64, 64, 1, 3});
        expect_engines(Conv{dtype, channels_last, bias, 64, 128, 4, 3, 2});
        expect_engines(Conv{dtype, channels_last, bias, 64, 64, 64, 5});
        expect_engines(Conv{dtype, channels_last, bias, 64, 32, 1, 1});
      }
}

TEST(CudnnConv, ImagesOfThreeChannelsHaveEngines) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_engines(Conv{dtype, false, false, 3, 64, 1, 7, 2});
    expect_engines(Conv{dtype, true, false, 3, 64, 1, 7, 2});
  }
}

TEST(CudnnConv, SignalsOfOneAxisHaveEngines) {
  const View x = view_of({16, 1, 96, 512}, DType::f32), y = view_of({16, 1, 96, 512}, DType::f32);
  const View weight = view_of({512, 512, 1, 3}, DType::f32);
  const ConvGeometry geometry{.padding = {0, 1}, .channels_last = true};
  EXPECT_EQ(problem(ConvArgs{.x = x, .weight = weight, .y = y, .geometry = geometry}), "");
  EXPECT_EQ(problem(ConvBackwardDataArgs{.weight = weight, .dy = y, .dx = x, .geometry = geometry}), "");
  EXPECT_EQ(problem(ConvBackwardWeightArgs{.x = x, .dy = y, .dweight = weight, .geometry = geometry}), "");
}

// Those of 16 bits are there for their speed.
TEST(CudnnConv, SixteenBitsHaveEnginesOnTensorCores) {
  DnnDescription description = hopper_description();
  description.only_tensor_cores = true;
  DnnDevice device(description);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const auto& [channels, side, taps] :
         {std::array<std::int64_t, 3>{512, 14, 1}, {256, 28, 3}, {128, 28, 3}}) {
      const View x = view_of({32, side, side, channels}, dtype);
      const View weight = view_of({channels, channels, taps, taps}, dtype);
      const ConvGeometry geometry{.padding = {taps / 2, taps / 2}, .channels_last = true};
      const auto of = [&](const auto& args) { return problem(args, device); };
      EXPECT_EQ(of(ConvArgs{.x = x, .weight = weight, .y = x, .geometry = geometry}), "") << channels;
      EXPECT_EQ(of(ConvBackwardDataArgs{.weight = weight, .dy = x, .dx = x, .geometry = geometry}), "")
          << channels;
      EXPECT_EQ(of(ConvBackwardWeightArgs{.x = x, .dy = x, .dweight = weight, .geometry = geometry}), "")
          << channels;
    }
  }
}

TEST(CudnnConv, ABiasThatIsNotAlignedIsLeftToOthers) {
  const View x = view_of({8, 32, 32, 64}, DType::bf16), weight = view_of({64, 64, 1, 1}, DType::bf16);
  View bias = view_of({64}, DType::bf16);
  const auto args = [&] {
    return ConvArgs{.x = x, .weight = weight, .bias = bias, .y = x, .geometry = {.channels_last = true}};
  };
  EXPECT_NE(dnn_operation(args()), nullptr);
  bias.data = static_cast<std::byte*>(bias.data) + 2;
  EXPECT_EQ(dnn_operation(args()), nullptr);
}

TEST(CudnnConv, SizesThatDoNotFitAreRefusedWithAReason) {
  const View x = view_of({8, 64, 32, 32}, DType::f32), y = view_of({8, 64, 31, 32}, DType::f32);
  const View weight = view_of({64, 64, 3, 3}, DType::f32);
  EXPECT_NE(problem(ConvArgs{.x = x, .weight = weight, .y = y, .geometry = {.padding = {1, 1}}}), "");
}

}  // namespace
}  // namespace ingot::kernels::cuda
