#include "check.h"
#include <dlpack/dlpack.h>

static const float kSix[] = {1, 2, 3, 4, 5, 6};
static const int64_t kTwoByThree[] = {2, 3};

static IngotTensor* six(void) {
  IngotTensor* t = NULL;
  CHECK_OK(ingot_tensor_from(kSix, sizeof kSix, kTwoByThree, 2, INGOT_F32, NULL, &t));
  return t;
}

static void check_values(const IngotTensor* t, const float* wanted, size_t count) {
  float values[16] = {0};
  CHECK_OK(ingot_tensor_read(t, values, count * sizeof(float)));
  for (size_t i = 0; i < count; ++i) CHECK(values[i] == wanted[i]);
}

static void made_from_values_has_them_and_says_what_it_is(void) {
  IngotTensor* t = six();
  IngotTensorInfo info;
  CHECK_OK(ingot_tensor_info(t, &info, sizeof info));
  CHECK(info.dtype == INGOT_F32 && info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3);
  CHECK(info.strides[0] == 3 && info.strides[1] == 1 && info.numel == 6 && info.nbytes == 24);
  CHECK(info.is_contiguous == 1 && strcmp(info.device, "cpu") == 0 &&
        memcmp(info.data, kSix, sizeof kSix) == 0);
  check_values(t, kSix, 6);
  const float other[] = {6, 5, 4, 3, 2, 1};
  CHECK_OK(ingot_tensor_write(t, other, sizeof other));
  check_values(t, other, 6);
  CHECK_OK(ingot_tensor_close(t));
  IngotTensor* scalar = NULL;
  CHECK_OK(ingot_tensor_zeros(NULL, 0, INGOT_I64, "cpu", &scalar));
  int64_t value = 1;
  CHECK_OK(ingot_tensor_read(scalar, &value, sizeof value));
  CHECK(value == 0);
  CHECK_OK(ingot_tensor_close(scalar));
}

static int deleted = 0;
static void count_deletion(void* user) { deleted += *(int*)user; }

static void a_view_of_the_callers_memory_is_not_copied_and_gives_it_back_last(void) {
  float mine[] = {1, 2, 3, 4, 5, 6};
  int one = 1;
  deleted = 0;
  IngotTensor *view = NULL, *row = NULL;
  const int64_t shape[] = {3, 2}, strides[] = {1, 3}; /* the transpose */
  CHECK_OK(ingot_tensor_view(mine, shape, strides, 2, INGOT_F32, NULL, count_deletion, &one, &view));
  mine[1] = 20;
  const float wanted[] = {1, 4, 20, 5, 3, 6};
  check_values(view, wanted, 6);
  CHECK_OK(ingot_tensor_write(view, kSix, sizeof kSix));
  CHECK(mine[0] == 1 && mine[1] == 3 && mine[3] == 2);
  CHECK_OK(ingot_tensor_select(view, 0, -1, &row));
  CHECK_OK(ingot_tensor_close(view));
  CHECK(deleted == 0);
  check_values(row, (const float[]){5, 6}, 2);
  CHECK_OK(ingot_tensor_close(row));
  CHECK(deleted == 1);
}

static void a_view_that_cannot_be_is_refused_and_not_deleted(void) {
  float mine[4] = {0};
  int one = 1;
  IngotTensor* t = NULL;
  deleted = 0;
  const int64_t shape[] = {2}, back[] = {-1};
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "aligned",
              ingot_tensor_view((char*)mine + 1, shape, NULL, 1, INGOT_F32, NULL, count_deletion, &one, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "negative",
              ingot_tensor_view(mine, shape, back, 1, INGOT_F32, NULL, count_deletion, &one, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "data is NULL",
              ingot_tensor_view(NULL, shape, NULL, 1, INGOT_F32, NULL, count_deletion, &one, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "out is NULL",
              ingot_tensor_view(mine, shape, NULL, 1, INGOT_F32, NULL, count_deletion, &one, NULL));
  CHECK(deleted == 0 && t == NULL);
}

static void shapes_dtypes_and_sizes_that_cannot_be_are_refused(void) {
  IngotTensor* t = NULL;
  const int64_t negative[] = {2, -3}, huge[] = {INT64_MAX, 2}, large[] = {1LL << 45};
  const int64_t seven[] = {1, 1, 1, 1, 1, 1, 1};
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "-3", ingot_tensor_zeros(negative, 2, INGOT_F32, NULL, &t));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "", ingot_tensor_zeros(huge, 2, INGOT_F64, NULL, &t));
  CHECK_FAILS(INGOT_OUT_OF_MEMORY, "", ingot_tensor_zeros(large, 1, INGOT_F64, NULL, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "rank is 7", ingot_tensor_zeros(seven, 7, INGOT_F32, NULL, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "rank is -1", ingot_tensor_zeros(seven, -1, INGOT_F32, NULL, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "dtype is 12", ingot_tensor_zeros(kTwoByThree, 2, 12, NULL, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "shape is NULL", ingot_tensor_zeros(NULL, 2, INGOT_F32, NULL, &t));
  CHECK_FAILS(INGOT_DEVICE_NOT_AVAILABLE, "cuda:5",
              ingot_tensor_zeros(kTwoByThree, 2, INGOT_F32, "cuda:5", &t));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "24 bytes, got 20",
              ingot_tensor_from(kSix, 20, kTwoByThree, 2, INGOT_F32, NULL, &t));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "data is NULL",
              ingot_tensor_from(NULL, 24, kTwoByThree, 2, INGOT_F32, NULL, &t));
  CHECK(t == NULL);
  float little[2];
  t = six();
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "got 8", ingot_tensor_read(t, little, sizeof little));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "to is NULL", ingot_tensor_read(t, NULL, 24));
  CHECK_OK(ingot_tensor_close(t));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "closed", ingot_tensor_read(t, little, sizeof little));
}

static void reshape_slice_transpose_and_broadcast_see_the_same_memory(void) {
  IngotTensor *t = six(), *flat = NULL, *odd = NULL, *transposed = NULL, *wide = NULL, *bad = NULL;
  const int64_t minus[] = {3, -1}, four[] = {4, -1}, wide_shape[] = {2, 2, 3};
  CHECK_OK(ingot_tensor_reshape(t, minus, 2, &flat));
  CHECK_OK(ingot_tensor_slice(flat, 0, 0, INT64_MAX, 2, &odd));
  check_values(odd, (const float[]){1, 2, 5, 6}, 4);
  CHECK_OK(ingot_tensor_transpose(t, 0, -1, &transposed));
  check_values(transposed, (const float[]){1, 4, 2, 5, 3, 6}, 6);
  CHECK_OK(ingot_tensor_broadcast(t, wide_shape, 3, &wide));
  check_values(wide, (const float[]){1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, 12);
  CHECK_OK(ingot_tensor_write(t, (const float[]){9, 2, 3, 4, 5, 6}, 24));
  check_values(odd, (const float[]){9, 2, 5, 6}, 4);
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "6 elements", ingot_tensor_reshape(t, four, 2, &bad));
  CHECK_FAILS(INGOT_SHAPE_MISMATCH, "", ingot_tensor_reshape(t, four, 1, &bad));
  CHECK(ingot_last_error()->expected_rank == 2 && ingot_last_error()->expected[1] == 3);
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "", ingot_tensor_slice(t, 0, 0, 2, 0, &bad));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "", ingot_tensor_select(t, 2, 0, &bad));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "", ingot_tensor_select(t, 0, 2, &bad));
  IngotTensor* all[] = {t, flat, odd, transposed, wide};
  for (size_t i = 0; i < 5; ++i) CHECK_OK(ingot_tensor_close(all[i]));
}

static void conversions_round_and_copies_have_memory_of_their_own(void) {
  IngotTensor *t = six(), *half = NULL, *back = NULL, *copy = NULL, *same = NULL;
  CHECK_OK(ingot_tensor_to_dtype(t, INGOT_BF16, NULL, &half));
  CHECK_OK(ingot_tensor_to_dtype(half, INGOT_F32, NULL, &back));
  check_values(back, kSix, 6);
  CHECK_OK(ingot_tensor_clone(t, NULL, &copy));
  CHECK_OK(ingot_tensor_to_device(t, "cpu", &same));
  CHECK_OK(ingot_tensor_write(t, (const float[]){0, 0, 0, 0, 0, 0}, 24));
  check_values(copy, kSix, 6);
  check_values(same, kSix, 6);
  CHECK_OK(ingot_tensor_copy(t, half, NULL));
  check_values(t, kSix, 6);
  IngotTensor* row = NULL;
  CHECK_OK(ingot_tensor_select(t, 0, 0, &row));
  CHECK_FAILS(INGOT_SHAPE_MISMATCH, "[3]", ingot_tensor_copy(t, row, NULL));
  IngotTensor* all[] = {t, half, back, copy, same, row};
  for (size_t i = 0; i < 6; ++i) CHECK_OK(ingot_tensor_close(all[i]));
}

static void dlpack_goes_out_and_in_without_a_copy(void) {
  IngotTensor *t = six(), *again = NULL;
  struct DLManagedTensor* managed = NULL;
  IngotTensorInfo before, after;
  CHECK_OK(ingot_tensor_info(t, &before, sizeof before));
  CHECK_OK(ingot_tensor_to_dlpack(t, &managed));
  CHECK(managed->dl_tensor.data == before.data && managed->dl_tensor.ndim == 2 &&
        managed->dl_tensor.shape[1] == 3);
  CHECK_OK(ingot_tensor_close(t)); /* the struct keeps the memory */
  CHECK_OK(ingot_tensor_from_dlpack(managed, &again));
  CHECK_OK(ingot_tensor_info(again, &after, sizeof after));
  CHECK(after.data == before.data);
  check_values(again, kSix, 6);
  CHECK_OK(ingot_tensor_close(again)); /* calls its deleter */
}

static void delete_nothing(struct DLManagedTensor* self) { ++*(int*)self->manager_ctx; }

static void a_foreign_dlpack_struct_is_deleted_once_or_left_to_the_caller(void) {
  float data[] = {1, 2, 3, 4};
  int64_t shape[] = {2, 2};
  int deletions = 0;
  struct DLManagedTensor managed = {.dl_tensor = {.data = data,
                                                  .device = {.device_type = kDLCPU, .device_id = 0},
                                                  .ndim = 2,
                                                  .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                                                  .shape = shape,
                                                  .strides = NULL,
                                                  .byte_offset = 0},
                                    .manager_ctx = &deletions,
                                    .deleter = delete_nothing};
  IngotTensor* t = NULL;
  managed.dl_tensor.dtype.lanes = 4;
  CHECK_FAILS(INGOT_NOT_IMPLEMENTED, "dtype", ingot_tensor_from_dlpack(&managed, &t));
  managed.dl_tensor.dtype.lanes = 1;
  managed.dl_tensor.ndim = 9;
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "", ingot_tensor_from_dlpack(&managed, &t));
  managed.dl_tensor.ndim = -1;
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "", ingot_tensor_from_dlpack(&managed, &t));
  managed.dl_tensor.ndim = 2;
  managed.dl_tensor.data = NULL;
  CHECK_FAILS(INGOT_ERROR, "null", ingot_tensor_from_dlpack(&managed, &t));
  managed.dl_tensor.data = data;
  managed.dl_tensor.device.device_id = 1000;
  managed.dl_tensor.device.device_type = kDLCUDA;
  CHECK_FAILS(INGOT_DEVICE_NOT_AVAILABLE, "", ingot_tensor_from_dlpack(&managed, &t));
  managed.dl_tensor.device.device_type = kDLCPU;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "managed is NULL", ingot_tensor_from_dlpack(NULL, &t));
  CHECK(deletions == 0 && t == NULL);
  CHECK_OK(ingot_tensor_from_dlpack(&managed, &t));
  check_values(t, data, 4);
  CHECK_OK(ingot_tensor_close(t));
  CHECK(deletions == 1);
}

static void dtypes_have_names_and_sizes(void) {
  CHECK(strcmp(ingot_dtype_name(INGOT_BF16), "bf16") == 0 && ingot_dtype_size(INGOT_BF16) == 2);
  CHECK(strcmp(ingot_dtype_name(99), "unknown") == 0 && ingot_dtype_size(99) == 0);
}

const TestCase tensor_tests[] = {
    {"tensor: made from values has them and says what it is", made_from_values_has_them_and_says_what_it_is},
    {"tensor: a view of the caller's memory is not copied",
     a_view_of_the_callers_memory_is_not_copied_and_gives_it_back_last},
    {"tensor: a view that cannot be is refused", a_view_that_cannot_be_is_refused_and_not_deleted},
    {"tensor: impossible shapes, dtypes and sizes are refused",
     shapes_dtypes_and_sizes_that_cannot_be_are_refused},
    {"tensor: reshape, slice, transpose, broadcast share memory",
     reshape_slice_transpose_and_broadcast_see_the_same_memory},
    {"tensor: conversions round, copies have their own memory",
     conversions_round_and_copies_have_memory_of_their_own},
    {"dlpack: goes out and in without a copy", dlpack_goes_out_and_in_without_a_copy},
    {"dlpack: a foreign struct is deleted once",
     a_foreign_dlpack_struct_is_deleted_once_or_left_to_the_caller},
    {"dtypes: have names and sizes", dtypes_have_names_and_sizes},
    {NULL, NULL}};
