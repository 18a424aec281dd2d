#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/kv_store.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cached_attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Attention of few queries on a cache, against the reference in f32 on the same rounded numbers. Whatever a
// cache holds behind its length is not a number, so each of these tests shows that nobody looks there.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;

struct DecodeCase {
  DType queries_in = DType::f32, cache_in = DType::f16;
  std::int64_t queries = 1, keys = 300, kv_heads = 1, group = 4, head = 64, value = 64;
  std::int64_t capacity = 0;                           // 0: that of the keys
  std::optional<std::vector<std::int32_t>> lengths{};  // of two sequences; none: the cache is full
  kernels::AttentionMask mask{};
  std::vector<std::int32_t> doc_starts{};
  float scale = 0.2F, softcap = 0.0F;
  bool scratch = true;
  const char* implementation = "decode";
};

constexpr std::int64_t kSequences = 2;

/// [sequences, heads, capacity, size], and the scales of an i8 one.
struct Cache {
  Tensor rows, scale;

  Cache on(Device device) const { return {to(rows, device), scale.defined() ? to(scale, device) : scale}; }
  /// The first `keys` as attention takes them.
  Tensor keys(std::int64_t count) const { return narrow(transpose(rows, 1, 2), 1, 0, count); }
  Tensor scales(std::int64_t count) const {
    return scale.defined() ? narrow(transpose(scale, 1, 2), 1, 0, count) : scale;
  }
};

/// Rows from lengths[b] on are not numbers.
Cache random_cache(const Shape& shape, const std::vector<std::int32_t>& lengths, DType dtype,
                   std::uint64_t seed) {
  const Tensor x = randn(shape, seed);
  const std::int64_t heads = shape[1], capacity = shape[2], size = shape[3];
  for (std::int64_t row = 0; row < shape[0] * heads * capacity; ++row) {
    if (row % capacity < lengths[static_cast<std::size_t>(row / capacity / heads)]) continue;
    for (std::int64_t c = 0; c < size; ++c) x.data<float>()[row * size + c] = NAN;
  }
  if (dtype != DType::i8) return {to(x, dtype), {}};
  const Cache cache{Tensor::empty(shape, DType::i8), Tensor::empty({shape[0], heads, capacity})};
  const std::int64_t all = shape[0] * heads * capacity;
  launch(kernels::kv_store, current_stream(kCpu),
         {.x = reshape(x, {all, 1, size}).view(),
          .y = reshape(cache.rows, {1, all, size}).view(),
          .scale = reshape(cache.scale, {1, all}).view()});
  return cache;
}

struct DecodeInputs {
  Tensor q, kv_length, doc_start;
  Cache k, v;

  explicit DecodeInputs(const DecodeCase& c)
      : q(to(randn({kSequences, c.queries, c.kv_heads * c.group, c.head}, 1), c.queries_in)) {
    const auto keys = static_cast<std::int32_t>(c.keys);
    const std::vector<std::int32_t> lengths = c.lengths.value_or(std::vector<std::int32_t>{keys, keys});
    const std::int64_t capacity = c.capacity == 0 ? c.keys : c.capacity;
    k = random_cache({kSequences, c.kv_heads, capacity, c.head}, lengths, c.cache_in, 2);
    v = random_cache({kSequences, c.kv_heads, capacity, c.value}, lengths, c.cache_in, 3);
    if (c.lengths) kv_length = Tensor::from(lengths, {kSequences});
    if (!c.doc_starts.empty()) doc_start = Tensor::from(c.doc_starts, {kSequences, c.queries});
  }
  DecodeInputs on(Device device) const {
    DecodeInputs there = *this;
    there.q = to(q, device);
    for (Tensor* x : {&there.kv_length, &there.doc_start})
      if (x->defined()) *x = to(*x, device);
    there.k = k.on(device);
    there.v = v.on(device);
    return there;
  }
};

// Writes log Σ exp(score) to `lse` where it is defined.
Tensor attend(const DecodeCase& c, const DecodeInputs& in, const Tensor& lse = {}) {
  const Tensor out =
      Tensor::empty({in.q.dim(0), c.queries, c.kv_heads * c.group, c.value}, in.q.dtype(), in.q.device());
  const Tensor k = in.k.keys(c.keys), v = in.v.keys(c.keys), k_scale = in.k.scales(c.keys),
               v_scale = in.v.scales(c.keys);
  kernels::AttentionArgs args{.q = in.q.view(),
                              .k = k.view(),
                              .v = v.view(),
                              .out = out.view(),
                              .lse = lse.view(),
                              .mask = c.mask,
                              .scale = c.scale,
                              .softcap = c.softcap,
                              .k_scale = k_scale.view(),
                              .v_scale = v_scale.view()};
  args.mask.kv_length = in.kv_length.view();
  args.mask.doc_start = in.doc_start.view();
  Tensor scratch;
  if (const std::int64_t room = kernels::attention_scratch(args); c.scratch && room > 0) {
    scratch = Tensor::empty({room}, DType::f32, in.q.device());
    args.scratch = scratch.view();
  }
  launch(kernels::attention, current_stream(in.q.device()), args);
  return out;
}

/// attend() by our own kernels, checking which of them.
Tensor attend_on_device(const DecodeCase& c, const DecodeInputs& there, const Tensor& lse = {}) {
  const kernels::LaunchProfile profile;
  const kernels::ForceKind kind(kernels::ImplKind::cuda);
  Tensor out = attend(c, there, lse);
  for (const kernels::LaunchProfile::Entry& entry : profile.entries())
    if (std::string_view(entry.kernel) == "attention") EXPECT_STREQ(entry.implementation, c.implementation);
  return out;
}

void expect_reference(const std::string& what, const DecodeCase& c) {
  DecodeInputs in(c);
  const Shape rows{in.q.dim(0), in.q.dim(2), in.q.dim(1)};
  const Tensor found_lse = Tensor::empty(rows, DType::f32, kDevice), lse = Tensor::empty(rows);
  const Tensor found = to(attend_on_device(c, in.on(kDevice), found_lse), kCpu);
  EXPECT_EQ(max_error(found, to(attend_on_device(c, in.on(kDevice)), kCpu)), 0)
      << what << ": where log Σ exp(score) is written, too";
  in.q = to(in.q, DType::f32);
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  const Tensor expected = attend(c, in, lse);
  const Tensor there = to(found_lse, kCpu);
  for (std::int64_t i = 0; i < lse.numel(); ++i) {
    const float wanted = lse.data<float>()[i], is = there.data<float>()[i];
    if (std::isinf(wanted)) {  // sees nothing
      ASSERT_EQ(is, wanted) << what << ": log Σ exp(score) " << i;
    } else {
      ASSERT_NEAR(is, wanted, 2e-5) << what << ": log Σ exp(score) " << i;
    }
  }
  // Sums are of f32, so what fp16 and bf16 lose is the rounding of the result.
  const double bound = c.queries_in == DType::bf16 ? 0x1p-8 : c.queries_in == DType::f16 ? 0x1p-10 : 0x1p-17;
  EXPECT_LE(max_error(found, expected), bound)
      << what << ", " << name(c.queries_in) << " on " << name(c.cache_in);
}

const std::pair<DType, DType> kPairs[] = {
    {DType::f32, DType::f32},   {DType::f32, DType::bf16}, {DType::f32, DType::f16}, {DType::f32, DType::i8},
    {DType::bf16, DType::bf16}, {DType::bf16, DType::i8},  {DType::f16, DType::f16}, {DType::f16, DType::i8}};

TEST(CudaDecodeAttention, EveryPairOfDtypesAndGroupEqualsTheReference) {
  for (const auto& [queries_in, cache_in] : kPairs) {
    for (const std::int64_t group : {1, 4, 8}) {
      expect_reference("group of " + std::to_string(group), {.queries_in = queries_in,
                                                             .cache_in = cache_in,
                                                             .kv_heads = 2,
                                                             .group = group,
                                                             .head = 128,
                                                             .value = 128,
                                                             .lengths = {{300, 129}}});
    }
  }
}

TEST(CudaDecodeAttention, EveryHeadSizeEqualsTheReference) {
  for (const auto& [queries_in, cache_in] : kPairs) {
    for (const auto& [head, value] :
         {std::pair<std::int64_t, std::int64_t>{64, 64}, {80, 80}, {256, 256}, {16, 208}}) {
      expect_reference("heads of " + std::to_string(head), {.queries_in = queries_in,
                                                            .cache_in = cache_in,
                                                            .queries = 2,
                                                            .keys = 200,
                                                            .head = head,
                                                            .value = value});
    }
  }
}

TEST(CudaDecodeAttention, CachesOfAnyHeadSizeAreTakenForAnyNumberOfQueries) {
  for (const auto& [queries_in, cache_in] : kPairs) {
    expect_reference("odd heads", {.queries_in = queries_in,
                                   .cache_in = cache_in,
                                   .queries = 3,
                                   .keys = 150,
                                   .head = 33,
                                   .value = 17,
                                   .lengths = {{150, 40}},
                                   .implementation = "tiled"});
    if (queries_in != cache_in)
      expect_reference("many queries", {.queries_in = queries_in,
                                        .cache_in = cache_in,
                                        .queries = 40,
                                        .keys = 150,
                                        .lengths = {{150, 60}},
                                        .implementation = "tiled"});
  }
}

TEST(CudaDecodeAttention, EveryNumberOfFewQueriesEqualsTheReference) {
  for (std::int64_t queries = 1; queries <= kernels::kFewQueries; ++queries) {
    for (const auto& [cache_in, group] : {std::pair{DType::f16, 3}, {DType::i8, 1}}) {
      expect_reference(
          std::to_string(queries) + " queries",
          {.cache_in = cache_in, .queries = queries, .keys = 260, .group = group, .lengths = {{260, 131}}});
    }
  }
  expect_reference("8 queries of 8 heads", {.queries = 8, .group = 8});
  DecodeCase more{.queries_in = DType::bf16, .cache_in = DType::bf16, .queries = kernels::kFewQueries + 1};
  more.implementation = "tensor_cores";
  EXPECT_NO_THROW(attend_on_device(more, DecodeInputs(more).on(kDevice)));
}

TEST(CudaDecodeAttention, EveryLengthEqualsTheReference) {
  for (const std::int32_t keys : {1, 2, 127, 128, 129, 256, 257, 700}) {
    for (const std::int64_t queries : {1, 3})
      expect_reference(std::to_string(keys) + " keys", {.queries = queries, .keys = keys, .group = 1});
    for (const std::int32_t length : {0, 1, 127, 128, 129, 256}) {
      if (length <= keys)
        expect_reference(std::to_string(length) + " of " + std::to_string(keys) + " keys",
                         {.queries = 2, .keys = keys, .group = 1, .lengths = {{length, keys}}});
    }
  }
}

// More parts than the warps, and than the threads, that put them together.
TEST(CudaDecodeAttention, ManyPartsEqualTheReference) {
  for (const std::int64_t parts : {20, 530}) {
    expect_reference(std::to_string(parts) + " parts",
                     {.keys = parts * kernels::kAttentionPartKeys,
                      .kv_heads = 1,
                      .group = 1,
                      .head = 8,
                      .value = 8,
                      .lengths = {{static_cast<std::int32_t>(parts * 128), 5}}});
  }
}

TEST(CudaDecodeAttention, EveryMaskEqualsTheReference) {
  for (const DType cache_in : {DType::f16, DType::i8}) {
    for (const std::int64_t window : {1, 20, 200}) {
      for (const bool causal : {true, false}) {
        expect_reference("window of " + std::to_string(window),
                         {.cache_in = cache_in,
                          .queries = 4,
                          .lengths = {{300, 150}},
                          .mask = {.window = window, .causal = causal}});
      }
    }
    for (const std::int64_t chunk : {7, 200})
      expect_reference(
          "chunks of " + std::to_string(chunk),
          {.cache_in = cache_in, .queries = 4, .lengths = {{300, 150}}, .mask = {.chunk = chunk}});
    expect_reference("not causal",
                     {.cache_in = cache_in, .queries = 5, .lengths = {{300, 3}}, .mask = {.causal = false}});
    expect_reference("documents",
                     {.cache_in = cache_in, .queries = 3, .doc_starts = {0, 299, 299, 140, 140, 140}});
    expect_reference("documents, both sides", {.cache_in = cache_in,
                                               .queries = 7,
                                               .keys = 7,
                                               .mask = {.causal = false},
                                               .doc_starts = {0, 0, 0, 3, 3, 5, 5, 0, 1, 1, 1, 1, 1, 6}});
    expect_reference("softcap", {.cache_in = cache_in, .queries = 2, .softcap = 2.0F});
    expect_reference("negative scale", {.cache_in = cache_in, .queries = 2, .scale = -0.3F});
  }
}

TEST(CudaDecodeAttention, WithoutRoomForPartsThereIsOne) {
  for (const auto& [queries_in, cache_in] : kPairs)
    expect_reference("one part", {.queries_in = queries_in,
                                  .cache_in = cache_in,
                                  .queries = 2,
                                  .lengths = {{300, 0}},
                                  .mask = {.window = 170},
                                  .scratch = false});
}

/// The heads of both.
Tensor heads_of(const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  return concat(both, 2);
}

TEST(CudaDecodeAttention, CachesOfOtherStridesEqualTheReference) {
  for (const DType cache_in : {DType::f32, DType::i8}) {
    expect_reference("capacity", {.cache_in = cache_in, .keys = 200, .capacity = 333});
    const DecodeCase c{.cache_in = cache_in, .queries = 2, .kv_heads = 2};
    const DecodeInputs in(c);
    DecodeInputs there = in.on(kDevice);
    const Tensor expected = attend_on_device(c, there);
    // Positions outermost, heads beside each other, and queries apart from each other.
    for (Cache* cache : {&there.k, &there.v}) {
      cache->rows = transpose(contiguous(transpose(cache->rows, 1, 2)), 1, 2);
    }
    there.q = narrow(heads_of(there.q, there.q), 2, 0, c.kv_heads * c.group);
    EXPECT_EQ(max_error(attend_on_device(c, there), expected), 0.0) << name(cache_in);
  }
}

/// Rows of a result, of one sequence.
Tensor first_sequence(const Tensor& x, std::int64_t from, std::int64_t count) {
  return narrow(narrow(x, 0, 0, 1), 1, from, count);
}

// The last of the keys are what queries add, so a query alone sees a shorter cache.
// 576 elements, as the latents of DeepSeek's attention have: keys that are values, too.
TEST(CudaDecodeAttention, HeadsThatNoKernelTakesAreComposedOfMatmuls) {
  const NoGrad no_grad;
  for (const std::int64_t window : {0, 4}) {
    const Tensor q = randn({3, 4, 576}, 1), keys = randn({1, 9, 1, 576}, 2);
    const auto attend_to = [&](Device device, const Tensor& length) {
      const Tensor k = to(keys, device);
      const CachedSequence sequence{.queries = 3, .keys = k, .values = k, .length = to(length, device)};
      return to(cached_attention(to(q, device), std::span(&sequence, 1), {.scale = 0.04F, .window = window}),
                kCpu);
    };
    for (const std::int32_t length : {9, 6}) {
      const Tensor counts = Tensor::from(std::vector<std::int32_t>{length}, {1});
      EXPECT_LE(max_error(attend_to(kDevice, counts), attend_to(kCpu, counts)), 1e-5) << window;
    }
  }
}

TEST(CudaDecodeAttention, AQuerysBitsDependOnNothingElse) {
  for (const DType cache_in : {DType::f32, DType::f16, DType::i8}) {
    for (const std::int64_t keys : {6, 131}) {
      const DecodeCase all{.cache_in = cache_in,
                           .queries = 6,
                           .keys = keys,
                           .kv_heads = 2,
                           .group = 2,
                           .capacity = 400,
                           .mask = {.window = 150}};
      const DecodeInputs in = DecodeInputs(all).on(kDevice);
      const Tensor expected = attend_on_device(all, in);
      for (std::int64_t i = 0; i < all.queries; ++i) {
        DecodeCase one = all;
        one.queries = 1;
        one.keys = keys - all.queries + i + 1;
        DecodeInputs alone = in;
        alone.q = first_sequence(in.q, i, 1);
        EXPECT_EQ(max_error(attend_on_device(one, alone), first_sequence(expected, i, 1)), 0.0)
            << name(cache_in) << ' ' << i << " of " << keys;
        // In a cache of a larger capacity, whose length the device knows.
        one.lengths = {{static_cast<std::int32_t>(one.keys), 0}};
        alone.kv_length = to(Tensor::from(*one.lengths, {kSequences}), kDevice);
        one.keys = 400;
        EXPECT_EQ(max_error(attend_on_device(one, alone), first_sequence(expected, i, 1)), 0.0)
            << name(cache_in) << ' ' << i << " of " << keys << " in 400";
      }
      // As the only one of its group.
      DecodeCase single = all;
      single.group = 1;
      DecodeInputs heads = in;
      heads.q = heads_of(narrow(in.q, 2, 0, 1), narrow(in.q, 2, all.group, 1));
      const Tensor few = attend_on_device(single, heads);
      EXPECT_EQ(max_error(narrow(few, 2, 0, 1), narrow(expected, 2, 0, 1)), 0.0) << name(cache_in);
      EXPECT_EQ(max_error(narrow(few, 2, 1, 1), narrow(expected, 2, all.group, 1)), 0.0) << name(cache_in);
    }
  }
}

TEST(CudaDecodeAttention, ACapturedLaunchReadsTheLengthOfThen) {
  const NoGrad no_grad;
  const DecodeCase c{.keys = 500, .lengths = {{500, 500}}};
  DecodeInputs in = DecodeInputs(c).on(kDevice);
  Tensor out;
  const auto work = backend(kDevice).capture([&] { out = attend_on_device(c, in); });
  const Tensor captured_length = in.kv_length;
  for (const std::int32_t length : {1, 127, 128, 129, 400, 0, 500}) {
    const Tensor lengths =
        to(Tensor::from(std::vector<std::int32_t>{length, 500 - length}, {kSequences}), kDevice);
    backend(kDevice).copy(captured_length.view().data, lengths.view().data, lengths.nbytes(),
                          current_stream(kDevice));
    work->launch(current_stream(kDevice));
    in.kv_length = lengths;
    EXPECT_EQ(max_error(out, attend_on_device(c, in)), 0.0) << length;
  }
}

// Speculative decoding rests on it: what a query gives among others of its sequence is what it gives alone.
TEST(CudaDecodeAttention, CachedAttentionOnAGpuEqualsTheCpusAndItself) {
  const NoGrad no_grad;
  for (const DType cache_in : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    const DecodeCase c{.cache_in = cache_in, .keys = 290, .kv_heads = 2, .group = 2};
    const DecodeInputs in(c);
    const Tensor q = randn({5, c.kv_heads * c.group, c.head}, 9);
    const auto run = [&](const Tensor& queries,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& sequences) {
      const Device device = queries.device();
      std::vector<CachedSequence> caches;
      for (const auto& [count, tokens] : sequences) {
        const Cache k = in.k.on(device), v = in.v.on(device);
        const auto first = [&](const Tensor& x) { return x.defined() ? narrow(x, 0, 0, 1) : x; };
        caches.push_back({count, first(k.keys(tokens)), first(v.keys(tokens)), first(k.scales(tokens)),
                          first(v.scales(tokens))});
      }
      return to(cached_attention(queries, caches, {.window = 200}), kCpu);
    };
    const Tensor there = to(q, kDevice);
    const Tensor together = run(there, {{3, 290}, {2, 140}});
    EXPECT_LE(max_error(together, run(q, {{3, 290}, {2, 140}})), 2e-5) << name(cache_in);
    const Tensor alone = run(there, {{1, 288}, {1, 289}, {1, 290}, {1, 139}, {1, 140}});
    EXPECT_EQ(max_error(together, alone), 0.0) << name(cache_in);
  }
}

}  // namespace
}  // namespace ingot
