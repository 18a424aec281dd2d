#include "check.h"

/* Plugins of examples/plugins, where they are built. */
static const char* plugin(const char* name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s.so", INGOT_PLUGIN_DIR, name);
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "skipped: %s is not built\n", path);
    return NULL;
  }
  fclose(file);
  return path;
}

static void what_a_plugin_adds_is_there_for_calls(void) {
  const char* path = plugin("example_environment");
  if (path == NULL) return;
  IngotEnvironment* games = NULL;
  CHECK_FAILS(INGOT_INVALID_CONFIG, "nim", ingot_environment_open("nim", 2, 1, &games));
  size_t before = 0, after = 0;
  CHECK_OK(ingot_plugin_count(&before));
  CHECK_OK(ingot_plugin_load(path));
  CHECK_OK(ingot_plugin_load(path)); /* once */
  CHECK_OK(ingot_plugin_count(&after));
  CHECK(after == before + 1);
  IngotPluginInfo info;
  CHECK_OK(ingot_plugin_info(before, &info, sizeof info));
  CHECK(strcmp(info.parts, "environment nim") == 0 && strstr(info.path, "example_environment.so") != NULL);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "there are", ingot_plugin_info(after, &info, sizeof info));
  CHECK_OK(ingot_environment_open("nim", 2, 1, &games));
  IngotEnvironmentInfo nim;
  CHECK_OK(ingot_environment_info(games, &nim, sizeof nim));
  CHECK(nim.players == 2 && nim.actions == 3);
  CHECK_OK(ingot_environment_close(games));
}

static void a_backend_is_a_device(void) {
  const char* path = plugin("example_backend");
  if (path == NULL) return;
  const float values[] = {1, 2, 3, 4};
  const int64_t shape[] = {2, 2};
  IngotTensor* x = NULL;
  CHECK(ingot_tensor_from(values, sizeof values, shape, 2, INGOT_F32, "toy", &x) != INGOT_OK);
  CHECK_OK(ingot_plugin_load(path));
  CHECK_OK(ingot_tensor_from(values, sizeof values, shape, 2, INGOT_F32, "toy", &x));
  float read[4] = {0};
  CHECK_OK(ingot_tensor_read(x, read, sizeof read));
  CHECK(memcmp(read, values, sizeof read) == 0);
  CHECK_OK(ingot_tensor_close(x));
}

static void a_weight_format_is_opened(void) {
  const char* path = plugin("example_weight_format");
  if (path == NULL) return;
  const char* file = temporary("model.ttxt");
  FILE* out = fopen(file, "wb");
  fputs("tensors as text\na 2 2 = 1 2 3 4\n", out);
  fclose(out);
  CHECK_OK(ingot_plugin_load(path));
  IngotWeights* weights = NULL;
  size_t count = 0;
  CHECK_OK(ingot_weights_open(file, &weights));
  CHECK_OK(ingot_weights_count(weights, &count));
  CHECK(count == 1);
  CHECK_OK(ingot_weights_close(weights));
}

static void another_version_is_refused_with_both(void) {
  const char* path = plugin("faulty_other_version");
  if (path == NULL) return;
  CHECK_FAILS(INGOT_INVALID_CONFIG, "was built for Ingot 9.7", ingot_plugin_load(path));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "nowhere.so", ingot_plugin_load("nowhere.so"));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "path", ingot_plugin_load(NULL));
}

const TestCase plugin_tests[] = {
    {"what_a_plugin_adds_is_there_for_calls", what_a_plugin_adds_is_there_for_calls},
    {"a_backend_is_a_device", a_backend_is_a_device},
    {"a_weight_format_is_opened", a_weight_format_is_opened},
    {"another_version_is_refused_with_both", another_version_is_refused_with_both},
    {NULL, NULL},
};
