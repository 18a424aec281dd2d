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

/* tests/models/goldens: a base model, an adapter for it, and the logits that PEFT gives with the adapter on.
 */
static const char* const kBase = "tests/models/goldens/qwen3";
static const char* const kAdapter = "tests/models/goldens/lora/qwen3_patterns";

static IngotTensor* first_of(const char* folder, const char* name) {
  char path[1200];
  snprintf(path, sizeof path, "%s/expected.safetensors", source_file(folder));
  IngotWeights* weights = NULL;
  IngotTensor *both = NULL, *first = NULL;
  CHECK_OK(ingot_weights_open(path, &weights));
  CHECK_OK(ingot_weights_load(weights, name, &both));
  CHECK_OK(ingot_tensor_select(both, 0, 0, &first));
  CHECK_OK(ingot_tensor_close(both));
  CHECK_OK(ingot_weights_close(weights));
  return first;
}

static void give_tokenizer(const char* directory) {
  char from[1200], to[1200];
  snprintf(from, sizeof from, "%s/tokenizer.json", tiny_model());
  snprintf(to, sizeof to, "%s/tokenizer.json", directory);
  copy_file(from, to);
}

static void check_logits_of_peft(const char* model, const IngotSessionOptions* options) {
  static int64_t wide[64];
  static int32_t ids[64];
  static float expected[64 * 128], actual[64 * 128];
  IngotTensor *tokens = first_of(kBase, "tokens"), *wanted = first_of(kAdapter, "logits"), *logits = NULL;
  IngotTensorInfo info;
  CHECK_OK(ingot_tensor_info(wanted, &info, sizeof info));
  const size_t count = (size_t)info.shape[0];
  CHECK(count <= 64 && info.numel <= 64 * 128);
  CHECK_OK(ingot_tensor_read(tokens, wide, count * sizeof wide[0]));
  for (size_t i = 0; i < count; ++i) ids[i] = (int32_t)wide[i];
  IngotSession* session = NULL;
  CHECK_OK(ingot_session_open(model, options, &session));
  CHECK_OK(ingot_session_logits(session, ids, count, &logits));
  CHECK_OK(ingot_tensor_read(wanted, expected, info.nbytes));
  CHECK_OK(ingot_tensor_read(logits, actual, info.nbytes));
  for (int64_t i = 0; i < info.numel; ++i) CHECK(NEAR(actual[i], expected[i]));
  CHECK_OK(ingot_session_close(session));
  IngotTensor* all[] = {tokens, wanted, logits};
  for (size_t i = 0; i < 3; ++i) CHECK_OK(ingot_tensor_close(all[i]));
}

static void merge_gives_the_logits_that_peft_gives(void) {
  const char* adapter = source_file(kAdapter);
  const char* merged = temporary("merged");
  CHECK_OK(ingot_merge(source_file(kBase), &adapter, NULL, 1, merged, NULL, NULL, NULL));
  give_tokenizer(merged);
  check_logits_of_peft(merged, NULL);
}

static void a_session_with_an_adapter_gives_them_too(void) {
  const char* base = temporary("base");
  CHECK_OK(ingot_convert(source_file(kBase), base, NULL, NULL, NULL));
  give_tokenizer(base);
  const char* adapter = source_file(kAdapter);
  IngotSessionOptions options;
  CHECK_OK(ingot_session_options(&options, sizeof options));
  options.adapters = &adapter;
  options.adapter_count = 1;
  check_logits_of_peft(base, &options);
}

const TestCase export_tests[] = {
    {"convert: writes the same model in another format", convert_writes_the_same_model_in_another_format},
    {"quantize: writes a model that opens", quantize_writes_a_model_that_opens},
    {"export: what cannot be written is a status", what_cannot_be_written_is_a_status_and_leaves_nothing},
    {"merge: gives the logits that PEFT gives", merge_gives_the_logits_that_peft_gives},
    {"session: with an adapter it gives them too", a_session_with_an_adapter_gives_them_too},
    {NULL, NULL}};
