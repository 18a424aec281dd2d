#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "suites.h"

int failed_checks = 0;

void tell_failure(const char* file, int line, const char* what) {
  ++failed_checks;
  if (what != NULL) {
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
  } else {
    const IngotError* error = ingot_last_error();
    fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, error->call, error->kind, error->message);
  }
}

void check_fails(const char* file, int line, const char* text, IngotStatus wanted, const char* part,
                 IngotStatus got) {
  const IngotError* error = ingot_last_error();
  if (got == wanted && strstr(error->message, part) != NULL && error->status == wanted) return;
  ++failed_checks;
  fprintf(stderr, "%s:%d: %s\n  gave %s (%s), wanted %s with '%s'\n", file, line, text,
          ingot_status_name(got), got == INGOT_OK ? "" : error->message, ingot_status_name(wanted), part);
}

static char folder[512];
static char paths[8][1024];
static int next_path = 0;

static const char* joined(const char* left, const char* right) {
  char* path = paths[next_path++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", left, right);
  return path;
}

const char* temporary(const char* name) { return joined(folder, name); }
const char* source_file(const char* name) { return joined(INGOT_SOURCE_DIR, name); }

/* c_api_tests [PART]: the tests whose names hold PART. */
int main(int argc, char** argv) {
  const char* base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/ingot-c-api-XXXXXX", base != NULL ? base : "/tmp");
  if (mkdtemp(folder) == NULL) return perror(folder), 1;
  /* Tensors are tiny here, and threads that wait for each other take most of the time. */
  IngotInitializeOptions options;
  CHECK_OK(ingot_initialize_options(&options, sizeof options));
  options.threads = 1;
  CHECK_OK(ingot_initialize(&options));
  int run = 0;
  for (const TestCase* const* suite = suites; *suite != NULL; ++suite) {
    for (const TestCase* test = *suite; test->name != NULL; ++test) {
      if (argc > 1 && strstr(test->name, argv[1]) == NULL) continue;
      const int before = failed_checks;
      const int64_t open = ingot_open_handles();
      test->run();
      if (ingot_open_handles() != open) tell_failure(test->name, 0, "handles were left open");
      printf("%s %s\n", failed_checks == before ? "ok    " : "FAILED", test->name);
      fflush(stdout);
      ++run;
    }
  }
  char command[600];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command) != 0) fprintf(stderr, "%s is left\n", folder);
  printf("%d tests, %d checks failed\n", run, failed_checks);
  return failed_checks == 0 && run > 0 ? 0 : 1;
}
