#include "check.h"

static void a_file_lists_its_tensors_and_loads_them(void) {
  IngotWeights* w = NULL;
  size_t count = 0, index = 0;
  const char* format = NULL;
  IngotWeightInfo info;
  CHECK_OK(ingot_weights_open(source_file("tests/models/goldens/llama_gqa_llama3"), &w));
  CHECK_OK(ingot_weights_count(w, &count));
  CHECK(count == 20);
  CHECK_OK(ingot_weights_format(w, &format));
  CHECK(strcmp(format, "safetensors") == 0);
  CHECK_OK(ingot_weights_find(w, "model.norm.weight", &index));
  CHECK_OK(ingot_weights_tensor(w, index, &info, sizeof info));
  CHECK(strcmp(info.name, "model.norm.weight") == 0 && info.rank == 1 && info.shape[0] == 24);
  CHECK(info.dtype == INGOT_F32 && info.bytes == 96 && strcmp(info.stored_as, "F32") == 0);
  IngotTensor* t = NULL;
  float norm[24];
  CHECK_OK(ingot_weights_load(w, "model.norm.weight", &t));
  CHECK_OK(ingot_weights_close(w)); /* the tensor stays */
  CHECK_OK(ingot_tensor_read(t, norm, sizeof norm));
  CHECK(isfinite(norm[0]) && norm[0] != 0);
  CHECK_OK(ingot_tensor_close(t));
}

static void what_was_saved_is_read_again(void) {
  const float values[] = {1, -2, 3};
  const int64_t shape[] = {3};
  IngotTensor *t = NULL, *half = NULL, *again = NULL;
  CHECK_OK(ingot_tensor_from(values, sizeof values, shape, 1, INGOT_F32, NULL, &t));
  CHECK_OK(ingot_tensor_to_dtype(t, INGOT_BF16, NULL, &half));
  const char* names[] = {"a", "b"};
  const IngotTensor* tensors[] = {t, half};
  const char* path = temporary("two.safetensors");
  CHECK_OK(ingot_save_safetensors(path, names, tensors, 2));
  IngotWeights* w = NULL;
  CHECK_OK(ingot_weights_open(path, &w));
  CHECK_OK(ingot_weights_load(w, "a", &again));
  float read[3];
  CHECK_OK(ingot_tensor_read(again, read, sizeof read));
  CHECK(memcmp(read, values, sizeof values) == 0);
  const char* value = NULL;
  CHECK_OK(ingot_weights_metadata(w, "format", &value));
  CHECK(value != NULL && strcmp(value, "pt") == 0);
  CHECK_OK(ingot_weights_metadata(w, "none", &value));
  CHECK(value == NULL);
  const char* twice[] = {"a", "a"};
  CHECK_FAILS(INGOT_INVALID_CONFIG, "a", ingot_save_safetensors(path, twice, tensors, 2));
  CHECK_FAILS(INGOT_IO_ERROR, "",
              ingot_save_safetensors(source_file("README.md/a.safetensors"), names, tensors, 2));
  IngotTensor* all[] = {t, half, again};
  for (size_t i = 0; i < 3; ++i) CHECK_OK(ingot_tensor_close(all[i]));
  CHECK_OK(ingot_weights_close(w));
}

static void what_is_missing_or_damaged_is_named(void) {
  IngotWeights* w = NULL;
  IngotTensor* t = NULL;
  IngotWeightInfo info;
  size_t index = 0;
  CHECK_FAILS(INGOT_IO_ERROR, "no-such-file", ingot_weights_open("no-such-file", &w));
  CHECK(strstr(ingot_last_error()->file, "no-such-file") != NULL);
  const char* path = temporary("damaged.safetensors");
  FILE* file = fopen(path, "wb");
  fputs("\x20\0\0\0\0\0\0\0{\"a\": 1", file);
  fclose(file);
  CHECK_FAILS(INGOT_FORMAT_ERROR, "", ingot_weights_open(path, &w));
  CHECK(strcmp(ingot_last_error()->file, path) == 0);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "path is NULL", ingot_weights_open(NULL, &w));
  CHECK(w == NULL);
  CHECK_OK(ingot_weights_open(source_file("tests/models/goldens/llama_gqa_llama3/model.safetensors"), &w));
  CHECK_FAILS(INGOT_IO_ERROR, "model.norm.weight", ingot_weights_load(w, "model.norm.wight", &t));
  CHECK_FAILS(INGOT_IO_ERROR, "nothing", ingot_weights_find(w, "nothing", &index));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "20 tensors", ingot_weights_tensor(w, 20, &info, sizeof info));
  CHECK(t == NULL);
  CHECK_OK(ingot_weights_close(w));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "closed", ingot_weights_load(w, "model.norm.weight", &t));
}

const TestCase weights_tests[] = {
    {"weights: a file lists its tensors and loads them", a_file_lists_its_tensors_and_loads_them},
    {"weights: what was saved is read again", what_was_saved_is_read_again},
    {"weights: what is missing or damaged is named", what_is_missing_or_damaged_is_named},
    {NULL, NULL}};
