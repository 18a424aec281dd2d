#define _POSIX_C_SOURCE 200809L
#include "fixture.h"
#include <unistd.h>

static float first_logit(const char* model) {
  IngotSession* session = NULL;
  IngotTensor* logits = NULL;
  const int32_t ids[] = {3, 4};
  float values[2 * 61] = {0};
  CHECK_OK(ingot_session_open(model, NULL, &session));
  CHECK_OK(ingot_session_logits(session, ids, 2, &logits));
  CHECK_OK(ingot_tensor_read(logits, values, sizeof values));
  CHECK_OK(ingot_tensor_close(logits));
  CHECK_OK(ingot_session_close(session));
  return values[61];
}

typedef struct {
  int calls;
  uint64_t done, total;
  int stop;
} Progress;

static int32_t note(uint64_t done, uint64_t total, void* user) {
  Progress* progress = user;
  CHECK(done > progress->done && done <= total);
  progress->done = done;
  progress->total = total;
  return ++progress->calls == progress->stop;
}

static void convert_writes_the_same_model_in_another_format(void) {
  const char* gguf = temporary("tiny.gguf");
  Progress progress = {0, 0, 0, 0};
  CHECK_OK(ingot_convert(tiny_model(), gguf, NULL, note, &progress));
  CHECK(progress.calls >= 20 && progress.done == progress.total);
  CHECK(NEAR(first_logit(gguf), first_logit(tiny_model())));
  const char* half = temporary("half");
  CHECK_OK(ingot_convert(gguf, half, "bf16", NULL, NULL));
  CHECK(fabsf(first_logit(half) - first_logit(tiny_model())) < 0.05F);
}

static void quantize_writes_a_model_that_opens(void) {
  const char* gguf = temporary("tiny-q8.gguf");
  CHECK_OK(ingot_quantize(tiny_model(), gguf, "q8_0", NULL, NULL));
  CHECK(fabsf(first_logit(gguf) - first_logit(tiny_model())) < 0.05F);
}

static void what_cannot_be_written_is_a_status_and_leaves_nothing(void) {
  const char* path = temporary("never.gguf");
  Progress progress = {0, 0, 0, 2};
  CHECK_FAILS(INGOT_ERROR, "on_written", ingot_convert(tiny_model(), path, NULL, note, &progress));
  CHECK(access(path, F_OK) != 0);
  CHECK_FAILS(INGOT_INVALID_CONFIG, "q9_9", ingot_quantize(tiny_model(), path, "q9_9", NULL, NULL));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "source itself",
              ingot_convert(tiny_model(), tiny_model(), NULL, NULL, NULL));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "GGUF", ingot_convert(tiny_model(), temporary("x"), "q8_0", NULL, NULL));
  CHECK_FAILS(INGOT_IO_ERROR, "no-such", ingot_convert("no-such", path, NULL, NULL, NULL));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "format is NULL", ingot_quantize(tiny_model(), path, NULL, NULL, NULL));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "count",
              ingot_merge(tiny_model(), NULL, NULL, 0, path, NULL, NULL, NULL));
  const char* adapter = "no-such-adapter";
  CHECK_FAILS(INGOT_IO_ERROR, "no-such-adapter",
              ingot_merge(tiny_model(), &adapter, NULL, 1, temporary("merged"), NULL, NULL, NULL));
  CHECK(access(path, F_OK) != 0);
}

static void merge_gives_the_logits_that_peft_gives(void) {
  const char* base = source_file("tests/models/goldens/qwen3");
  const char* adapter = source_file("tests/models/goldens/lora/qwen3_patterns");
  const char* merged = temporary("merged");
  char path[1200];
  CHECK_OK(ingot_merge(base, &adapter, NULL, 1, merged, NULL, NULL, NULL));
  snprintf(path, sizeof path, "%s/tokenizer.json", tiny_model());
  char copy[1200];
  snprintf(copy, sizeof copy, "%s/tokenizer.json", merged);
  copy_file(path, copy);
  IngotWeights *golden = NULL, *inputs = NULL;
  IngotTensor *tokens = NULL, *both = NULL, *wanted = NULL, *logits = NULL;
  snprintf(path, sizeof path, "%s/expected.safetensors", base);
  CHECK_OK(ingot_weights_open(path, &inputs));
  CHECK_OK(ingot_weights_load(inputs, "tokens", &tokens));
  snprintf(path, sizeof path, "%s/expected.safetensors", adapter);
  CHECK_OK(ingot_weights_open(path, &golden));
  CHECK_OK(ingot_weights_load(golden, "logits", &both));
  CHECK_OK(ingot_tensor_select(both, 0, 0, &wanted));
  IngotTensorInfo info;
  CHECK_OK(ingot_tensor_info(wanted, &info, sizeof info));
  static int64_t wide[2 * 64];
  static int32_t ids[64];
  static float expected[64 * 128], actual[64 * 128];
  const size_t count = (size_t)info.shape[0];
  CHECK(count <= 64 && info.numel <= 64 * 128);
  CHECK_OK(ingot_tensor_read(tokens, wide, 2 * count * sizeof wide[0]));
  for (size_t i = 0; i < count; ++i) ids[i] = (int32_t)wide[i];
  IngotSession* session = NULL;
  CHECK_OK(ingot_session_open(merged, NULL, &session));
  CHECK_OK(ingot_session_logits(session, ids, count, &logits));
  CHECK_OK(ingot_tensor_read(wanted, expected, info.nbytes));
  CHECK_OK(ingot_tensor_read(logits, actual, info.nbytes));
  for (int64_t i = 0; i < info.numel; ++i) CHECK(NEAR(actual[i], expected[i]));
  CHECK_OK(ingot_session_close(session));
  CHECK_OK(ingot_weights_close(golden));
  CHECK_OK(ingot_weights_close(inputs));
  IngotTensor* all[] = {tokens, both, wanted, logits};
  for (size_t i = 0; i < 4; ++i) CHECK_OK(ingot_tensor_close(all[i]));
}

const TestCase export_tests[] = {
    {"convert: writes the same model in another format", convert_writes_the_same_model_in_another_format},
    {"quantize: writes a model that opens", quantize_writes_a_model_that_opens},
    {"export: what cannot be written is a status", what_cannot_be_written_is_a_status_and_leaves_nothing},
    {"merge: gives the logits that PEFT gives", merge_gives_the_logits_that_peft_gives},
    {NULL, NULL}};
