#include "check.h"

static IngotTensor* tensor(const float* values, size_t count, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t sizes[] = {a, b, c, d};
  int32_t rank = 0;
  while (rank < 4 && sizes[rank] > 0) ++rank;
  IngotTensor* t = NULL;
  CHECK_OK(ingot_tensor_from(values, count * sizeof(float), sizes, rank, INGOT_F32, NULL, &t));
  return t;
}

static IngotTensor* as(IngotTensor* t, IngotDtype dtype) {
  IngotTensor* converted = NULL;
  CHECK_OK(ingot_tensor_to_dtype(t, dtype, NULL, &converted));
  CHECK_OK(ingot_tensor_close(t));
  return converted;
}

/* Closes the tensor. */
static void check_near(IngotTensor* t, const float* wanted, size_t count, double tolerance) {
  float values[32] = {0};
  t = as(t, INGOT_F32);
  CHECK_OK(ingot_tensor_read(t, values, count * sizeof(float)));
  for (size_t i = 0; i < count; ++i) CHECK(fabs(values[i] - wanted[i]) <= tolerance);
  CHECK_OK(ingot_tensor_close(t));
}

static void close_all(IngotTensor** tensors, size_t count) {
  for (size_t i = 0; i < count; ++i) CHECK_OK(ingot_tensor_close(tensors[i]));
}

static const float kA[] = {1, 2, 3, 4, 5, 6}, kB[] = {1, 0, 0, 1, 1, 1};

static void matmul_multiplies_in_every_floating_dtype(void) {
  const IngotDtype dtypes[] = {INGOT_F32, INGOT_F64, INGOT_F16, INGOT_BF16};
  IngotStream* stream = NULL;
  CHECK_OK(ingot_stream_create("cpu", &stream));
  for (size_t i = 0; i < 4; ++i) {
    IngotTensor* two[] = {as(tensor(kA, 6, 2, 3, 0, 0), dtypes[i]), as(tensor(kB, 6, 3, 2, 0, 0), dtypes[i])};
    IngotTensor* c = NULL;
    IngotTensorInfo info;
    CHECK_OK(ingot_matmul(two[0], two[1], stream, &c));
    CHECK_OK(ingot_tensor_info(c, &info, sizeof info));
    CHECK(info.dtype == dtypes[i] && info.shape[0] == 2 && info.shape[1] == 2);
    check_near(c, (const float[]){4, 5, 10, 11}, 4, 0);
    close_all(two, 2);
  }
  CHECK_OK(ingot_stream_close(stream));
}

static void matmul_of_wrong_operands_is_a_status(void) {
  IngotTensor* t[] = {tensor(kA, 6, 2, 3, 0, 0), as(tensor(kB, 6, 3, 2, 0, 0), INGOT_F64),
                      as(tensor(kB, 6, 2, 3, 0, 0), INGOT_I32)};
  IngotTensor* c = NULL;
  IngotStream* stream = NULL;
  CHECK_FAILS(INGOT_SHAPE_MISMATCH, "matmul", ingot_matmul(t[0], t[0], NULL, &c));
  const IngotError* error = ingot_last_error();
  CHECK(error->expected_rank == 2 && error->expected[0] == 3 && error->expected[1] == 3);
  CHECK(error->actual_rank == 2 && error->actual[0] == 2 && error->actual[1] == 3);
  CHECK_FAILS(INGOT_KERNEL_ERROR, "f64", ingot_matmul(t[0], t[1], NULL, &c));
  CHECK_FAILS(INGOT_KERNEL_ERROR, "i32", ingot_softmax(t[2], NULL, &c));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "NULL", ingot_matmul(t[0], NULL, NULL, &c));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "NULL", ingot_matmul(NULL, t[0], NULL, &c));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "out is NULL", ingot_matmul(t[0], t[1], NULL, NULL));
  CHECK_OK(ingot_stream_create(NULL, &stream));
  CHECK_OK(ingot_stream_close(stream));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "stream", ingot_matmul(t[0], t[1], stream, &c));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "IngotBinary", ingot_binary(99, t[0], t[0], NULL, &c));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "IngotUnary", ingot_unary(-1, t[0], NULL, &c));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "IngotReduction", ingot_reduce(7, t[0], NULL, 0, NULL, &c));
  CHECK_FAILS(INGOT_SHAPE_MISMATCH, "", ingot_rms_norm(t[0], t[0], 1e-5F, NULL, &c));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "attention", ingot_attention(t[0], t[0], t[0], NULL, NULL, &c));
  CHECK(c == NULL);
  close_all(t, 3);
}

static void linear_adds_a_bias(void) {
  IngotTensor* t[] = {tensor(kA, 6, 2, 3, 0, 0), tensor((const float[]){1, 0, 0, 0, 1, 0}, 6, 2, 3, 0, 0),
                      tensor((const float[]){10, 20}, 2, 2, 0, 0, 0)};
  IngotTensor* y = NULL;
  CHECK_OK(ingot_linear(t[0], t[1], t[2], NULL, &y));
  check_near(y, (const float[]){11, 22, 14, 25}, 4, 0);
  CHECK_OK(ingot_linear(t[0], t[1], NULL, NULL, &y));
  check_near(y, (const float[]){1, 2, 4, 5}, 4, 0);
  close_all(t, 3);
}

static void eight_bit_floats_multiply_with_scales(void) {
  IngotTensor* t[] = {as(tensor(kA, 6, 2, 3, 0, 0), INGOT_F8E4M3),
                      as(tensor((const float[]){1, 1, 1, 2, 0, 0}, 6, 2, 3, 0, 0), INGOT_F8E5M2),
                      tensor((const float[]){0.5F}, 1, 1, 0, 0, 0), tensor((const float[]){4}, 1, 1, 0, 0, 0),
                      tensor((const float[]){1, 2}, 2, 2, 0, 0, 0)};
  IngotTensor* c = NULL;
  CHECK_OK(ingot_matmul_fp8(t[0], t[2], t[1], t[3], NULL, INGOT_F32, NULL, &c));
  check_near(c, (const float[]){12, 4, 30, 16}, 4, 1e-5);
  CHECK_OK(ingot_matmul_fp8(t[0], t[2], t[1], t[3], t[4], INGOT_F32, NULL, &c));
  check_near(c, (const float[]){13, 6, 31, 18}, 4, 1e-5);
  CHECK_FAILS(INGOT_SHAPE_MISMATCH, "a_scale",
              ingot_matmul_fp8(t[0], t[4], t[1], t[3], NULL, INGOT_F32, NULL, &c));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "f8e5m2",
              ingot_matmul_fp8(t[1], t[2], t[1], t[3], NULL, INGOT_F32, NULL, &c));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "f32",
              ingot_matmul_fp8(t[4], t[2], t[1], t[3], NULL, INGOT_F32, NULL, &c));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "out_dtype",
              ingot_matmul_fp8(t[0], t[2], t[1], t[3], NULL, INGOT_I8, NULL, &c));
  close_all(t, 5);
}

static void a_packed_weight_multiplies_as_its_values_do(void) {
  float weight[64 * 2], x[64];
  for (int i = 0; i < 128; ++i) weight[i] = (float)((i * 37) % 255 - 127) / 127.0F;
  for (int i = 0; i < 64; ++i) x[i] = (float)(i % 5 - 2);
  IngotTensor *w = tensor(weight, 128, 2, 64, 0, 0), *in = tensor(x, 64, 1, 64, 0, 0), *y = NULL,
              *values = NULL;
  IngotPackedMatrix* packed = NULL;
  CHECK_OK(ingot_pack(w, "q8_0", &packed));
  CHECK_OK(ingot_packed_linear(in, packed, NULL, NULL, &y));
  CHECK_OK(ingot_packed_values(packed, &values));
  float left[128], wanted[2] = {0, 0};
  CHECK_OK(ingot_tensor_read(values, left, sizeof left));
  for (int i = 0; i < 128; ++i) wanted[i / 64] += left[i] * x[i % 64];
  check_near(y, wanted, 2, 0.05);
  IngotPackedMatrix* none = NULL;
  CHECK_FAILS(INGOT_INVALID_CONFIG, "q9_9", ingot_pack(w, "q9_9", &none));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "format is NULL", ingot_pack(w, NULL, &none));
  CHECK_FAILS(INGOT_SHAPE_MISMATCH, "", ingot_packed_linear(values, packed, w, NULL, &y));
  CHECK_OK(ingot_packed_close(packed));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "packed matrix", ingot_packed_linear(in, packed, NULL, NULL, &y));
  IngotTensor* all[] = {w, in, values};
  close_all(all, 3);
}

static void norms_and_softmax_have_their_formulas_values(void) {
  IngotTensor *x = tensor((const float[]){3, 4}, 2, 1, 2, 0, 0),
              *w = tensor((const float[]){1, 2}, 2, 2, 0, 0, 0);
  IngotTensor* y = NULL;
  const float rms = sqrtf(12.5F);
  CHECK_OK(ingot_rms_norm(x, w, 0, NULL, &y));
  check_near(y, (const float[]){3 / rms, 8 / rms}, 2, 1e-5);
  CHECK_OK(ingot_layer_norm(x, w, w, 0, NULL, &y));
  check_near(y, (const float[]){0, 4}, 2, 1e-5);
  CHECK_OK(ingot_layer_norm(x, NULL, NULL, 0, NULL, &y));
  check_near(y, (const float[]){-1, 1}, 2, 1e-5);
  CHECK_OK(ingot_softmax(x, NULL, &y));
  check_near(y, (const float[]){1 / (1 + expf(1)), 1 / (1 + expf(-1))}, 2, 1e-6);
  IngotTensor* all[] = {x, w};
  close_all(all, 2);
}

static void attention_is_causal_unless_told_otherwise(void) {
  /* one head of width 2, two positions; equal keys make all that is seen count alike */
  IngotTensor *q = tensor((const float[]){0, 0, 0, 0}, 4, 1, 2, 1, 2),
              *v = tensor((const float[]){1, 2, 3, 4}, 4, 1, 2, 1, 2);
  IngotTensor* y = NULL;
  CHECK_OK(ingot_attention(q, q, v, NULL, NULL, &y));
  check_near(y, (const float[]){1, 2, 2, 3}, 4, 1e-6);
  IngotAttentionOptions options;
  CHECK_OK(ingot_attention_options(&options, sizeof options));
  CHECK(options.causal == 1);
  options.causal = 0;
  CHECK_OK(ingot_attention(q, q, v, &options, NULL, &y));
  check_near(y, (const float[]){2, 3, 2, 3}, 4, 1e-6);
  options.size = 3;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "size", ingot_attention(q, q, v, &options, NULL, &y));
  IngotTensor* all[] = {q, v};
  close_all(all, 2);
}

static void elementwise_ops_broadcast_and_reductions_reduce(void) {
  IngotTensor *a = tensor(kA, 6, 2, 3, 0, 0), *row = tensor((const float[]){1, 2, 3}, 3, 3, 0, 0, 0),
              *y = NULL;
  CHECK_OK(ingot_binary(INGOT_ADD, a, row, NULL, &y));
  check_near(y, (const float[]){2, 4, 6, 5, 7, 9}, 6, 0);
  CHECK_OK(ingot_binary(INGOT_MUL, a, row, NULL, &y));
  check_near(y, (const float[]){1, 4, 9, 4, 10, 18}, 6, 0);
  CHECK_OK(ingot_unary(INGOT_RELU, a, NULL, &y));
  check_near(y, kA, 6, 0);
  const int32_t axis = -1;
  CHECK_OK(ingot_reduce(INGOT_SUM, a, &axis, 1, NULL, &y));
  check_near(y, (const float[]){6, 15}, 2, 0);
  CHECK_OK(ingot_reduce(INGOT_MAX, a, NULL, 0, NULL, &y));
  check_near(y, (const float[]){6}, 1, 0);
  int64_t at[2] = {0};
  CHECK_OK(ingot_argmax(a, -1, NULL, &y));
  CHECK_OK(ingot_tensor_read(y, at, sizeof at));
  CHECK(at[0] == 2 && at[1] == 2);
  CHECK_OK(ingot_tensor_close(y));
  IngotTensor* all[] = {a, row};
  close_all(all, 2);
}

static void ten_thousand_calls_leave_no_memory_behind(void) {
  IngotTensor *a = tensor(kA, 6, 2, 3, 0, 0), *row = tensor((const float[]){1, 2, 3}, 3, 3, 0, 0, 0);
  IngotMemoryInfo before, after;
  CHECK_OK(ingot_device_memory("cpu", &before, sizeof before));
  for (int i = 0; i < 10000; ++i) {
    IngotTensor* y = NULL;
    if (ingot_binary(INGOT_ADD, a, row, NULL, &y) != INGOT_OK || ingot_tensor_close(y) != INGOT_OK ||
        ingot_matmul(a, a, NULL, &y) != INGOT_SHAPE_MISMATCH)
      CHECK(!"a call of the loop");
  }
  CHECK_OK(ingot_device_memory("cpu", &after, sizeof after));
  CHECK(after.allocated == before.allocated);
  IngotTensor* all[] = {a, row};
  close_all(all, 2);
}

const TestCase ops_tests[] = {
    {"matmul: multiplies in every floating dtype", matmul_multiplies_in_every_floating_dtype},
    {"matmul: wrong operands are a status", matmul_of_wrong_operands_is_a_status},
    {"linear: adds a bias", linear_adds_a_bias},
    {"matmul: 8-bit floats with scales", eight_bit_floats_multiply_with_scales},
    {"packed: a weight multiplies as its values do", a_packed_weight_multiplies_as_its_values_do},
    {"norms: have their formulas' values", norms_and_softmax_have_their_formulas_values},
    {"attention: is causal unless told otherwise", attention_is_causal_unless_told_otherwise},
    {"elementwise: broadcast; reductions reduce", elementwise_ops_broadcast_and_reductions_reduce},
    {"leaks: ten thousand calls leave no memory behind", ten_thousand_calls_leave_no_memory_behind},
    {NULL, NULL}};
