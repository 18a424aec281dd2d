#include "check.h"
#include <pthread.h>

static const char* const kSpace =
    "x: {low: -2, high: 2}\nlayers: {type: int, low: 1, high: 3}\nkind: {choices: [a, b]}\n";

static double objective(const IngotTrial* trial) {
  double x = 0, layers = 0;
  CHECK_OK(ingot_trial_value(trial, "x", &x));
  CHECK_OK(ingot_trial_value(trial, "layers", &layers));
  CHECK(x >= -2 && x <= 2 && layers >= 1 && layers <= 3);
  return x * x + layers;
}

static IngotStudyOptions options_of(int64_t trials) {
  IngotStudyOptions options;
  CHECK_OK(ingot_study_options(&options, sizeof options));
  CHECK(options.trials == 100);
  options.trials = trials;
  return options;
}

static void asks_reports_and_finds_the_best(void) {
  IngotStudy* study = NULL;
  const IngotStudyOptions options = options_of(20);
  CHECK_OK(ingot_study_open(kSpace, &options, &study));
  char* params = NULL;
  CHECK_OK(ingot_study_best(study, &params, NULL, NULL));
  CHECK(params == NULL);
  double best = INFINITY;
  int count = 0;
  for (IngotTrial* trial = NULL;; ++count) {
    CHECK_OK(ingot_study_ask(study, &trial));
    if (trial == NULL) break;
    int64_t number = -1;
    CHECK_OK(ingot_trial_number(trial, &number));
    CHECK(number == count);
    const double value = objective(trial);
    int32_t pruned = 1;
    CHECK_OK(ingot_trial_report(trial, 0, value + 1, &pruned));
    CHECK(pruned == 0);
    CHECK_OK(ingot_trial_complete(trial, value));
    CHECK_FAILS(INGOT_INVALID_CONFIG, "complete", ingot_trial_complete(trial, value));
    if (value < best) best = value;
    CHECK_OK(ingot_trial_close(trial));
  }
  CHECK(count == 20);
  int32_t complete = 0;
  int64_t number = -1;
  double value = 0;
  CHECK_OK(ingot_study_is_complete(study, &complete));
  CHECK(complete == 1);
  CHECK_OK(ingot_study_best(study, &params, &number, &value));
  CHECK(value == best && number >= 0 && strstr(params, "\"layers\"") != NULL);
  ingot_free(params);
  CHECK_OK(ingot_study_close(study));
}

static void* work(void* user) {
  for (IngotTrial* trial = NULL;;) {
    CHECK_OK(ingot_study_ask(user, &trial));
    if (trial == NULL) return NULL;
    CHECK_OK(ingot_trial_complete(trial, objective(trial)));
    CHECK_OK(ingot_trial_close(trial));
  }
}

static void threads_share_a_study(void) {
  IngotStudy* study = NULL;
  const IngotStudyOptions options = options_of(16);
  CHECK_OK(ingot_study_open(kSpace, &options, &study));
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, work, study);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  int32_t complete = 0;
  CHECK_OK(ingot_study_is_complete(study, &complete));
  CHECK(complete == 1);
  CHECK_OK(ingot_study_close(study));
}

static void a_study_in_a_file_goes_on(void) {
  const char* path = temporary("study.db");
  for (int run = 0; run < 2; ++run) {
    IngotStudyOptions options = options_of(2 * (run + 1));
    options.path = path;
    options.objective = "a parabola";
    IngotStudy* study = NULL;
    IngotTrial* trial = NULL;
    CHECK_OK(ingot_study_open(kSpace, &options, &study));
    for (int i = 0; i < 2; ++i) {
      int64_t number = -1;
      CHECK_OK(ingot_study_ask(study, &trial));
      CHECK_OK(ingot_trial_number(trial, &number));
      CHECK(number == 2 * run + i);
      CHECK_OK(ingot_trial_complete(trial, objective(trial)));
      CHECK_OK(ingot_trial_close(trial));
    }
    CHECK_OK(ingot_study_ask(study, &trial));
    CHECK(trial == NULL);
    CHECK_OK(ingot_study_close(study));
  }
  IngotStudyOptions other = options_of(4);
  other.path = path;
  other.objective = "something else";
  IngotStudy* study = NULL;
  CHECK_FAILS(INGOT_INVALID_CONFIG, "something else", ingot_study_open(kSpace, &other, &study));
}

static void several_objectives_have_a_front(void) {
  IngotStudy* study = NULL;
  IngotStudyOptions options = options_of(12);
  options.objectives = "{loss: minimize, layers: maximize}";
  CHECK_OK(ingot_study_open(kSpace, &options, &study));
  char* front = NULL;
  CHECK_OK(ingot_study_front(study, &front));
  CHECK(strcmp(front, "[]") == 0);
  ingot_free(front);
  for (IngotTrial* trial = NULL;;) {
    CHECK_OK(ingot_study_ask(study, &trial));
    if (trial == NULL) break;
    double values[2] = {objective(trial), 0};
    CHECK_OK(ingot_trial_value(trial, "layers", &values[1]));
    CHECK_FAILS(INGOT_INVALID_CONFIG, "2 objectives", ingot_trial_complete(trial, values[0]));
    CHECK_FAILS(INGOT_INVALID_ARGUMENT, "values is NULL", ingot_trial_complete_all(trial, NULL, 2));
    CHECK_OK(ingot_trial_complete_all(trial, values, 2));
    CHECK_OK(ingot_trial_close(trial));
  }
  CHECK_OK(ingot_study_front(study, &front));
  CHECK(strstr(front, "\"values\":{\"loss\":") != NULL && strstr(front, "\"layers\":") != NULL);
  ingot_free(front);
  CHECK_OK(ingot_study_close(study));
  options.direction = "minimize";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "is said by objectives", ingot_study_open(kSpace, &options, &study));
  options.direction = NULL;
  options.objectives = "{loss: sideways, size: minimize}";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "loss", ingot_study_open(kSpace, &options, &study));
}

/* Deep networks ask for a width of each layer, flat ones for nothing more. */
static double nested_objective(IngotTrial* trial) {
  double deep = 0, rate = 0, layers = 0, sum = 0;
  CHECK_OK(ingot_trial_suggest(trial, "kind", "{\"choices\": [\"flat\", \"deep\"]}", &deep));
  CHECK_OK(ingot_trial_suggest(trial, "rate", "{\"low\": 1e-4, \"high\": 1, \"log\": true}", &rate));
  CHECK(rate >= 1e-4 && rate <= 1);
  if (deep == 0) return rate;
  CHECK_OK(ingot_trial_suggest(trial, "layers", "{\"type\": \"int\", \"low\": 1, \"high\": 3}", &layers));
  CHECK(layers == 1 || layers == 2 || layers == 3);
  for (int i = 0; i < (int)layers; ++i) {
    char name[32];
    double width = 0, again = 0;
    snprintf(name, sizeof name, "width %d", i);
    const char* range = "{\"type\": \"int\", \"low\": 8, \"high\": 64, \"step\": 8}";
    CHECK_OK(ingot_trial_suggest(trial, name, range, &width));
    CHECK(width >= 8 && width <= 64 && fmod(width, 8) == 0);
    CHECK_OK(ingot_trial_suggest(trial, name, range, &again));
    CHECK(again == width);
    sum += width / 64;
  }
  return rate + sum;
}

static void trials_say_what_they_search(void) {
  IngotStudy* study = NULL;
  IngotTrial *trial = NULL, *first = NULL;
  const IngotStudyOptions options = options_of(30);
  CHECK_OK(ingot_study_open(NULL, &options, &study));
  CHECK_OK(ingot_study_ask(study, &first)); /* runs while others add parameters */
  double value = 0;
  CHECK_OK(ingot_trial_value(first, "layers", &value));
  CHECK(isnan(value));
  int flat = 0;
  for (;;) {
    CHECK_OK(ingot_study_ask(study, &trial));
    if (trial == NULL) break;
    const double reached = nested_objective(trial);
    double kind = -1, layers = -1;
    CHECK_OK(ingot_trial_value(trial, "kind", &kind));
    CHECK_OK(ingot_trial_value(trial, "layers", &layers)); /* whether or not others have asked for it */
    CHECK((isnan(layers) != 0) == (kind == 0));
    flat += kind == 0;
    CHECK_OK(ingot_trial_complete(trial, reached));
    CHECK_OK(ingot_trial_close(trial));
  }
  CHECK(flat > 5); /* the better kind */
  CHECK_OK(ingot_trial_value(first, "layers", &value));
  CHECK(isnan(value)); /* it has not asked */
  CHECK_FAILS(INGOT_INVALID_CONFIG, "space.rate",
              ingot_trial_suggest(first, "rate", "{\"low\": 0, \"high\": 1}", &value));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "space.new", ingot_trial_suggest(first, "new", "{\"low\": 1}", &value));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "JSON", ingot_trial_suggest(first, "new", "low: 1", &value));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "parameter is NULL", ingot_trial_suggest(first, "new", NULL, &value));
  CHECK_OK(ingot_trial_prune(first, "on purpose"));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "pruned",
              ingot_trial_suggest(first, "rate", "{\"low\": 1e-4, \"high\": 1, \"log\": true}", &value));
  char* params = NULL;
  CHECK_OK(ingot_study_best(study, &params, NULL, &value));
  CHECK(strstr(params, "\"kind\":\"flat\"") != NULL && strstr(params, "layers") == NULL && value < 1);
  ingot_free(params);
  CHECK_OK(ingot_trial_close(first));
  CHECK_OK(ingot_study_close(study));
}

static void what_cannot_be_is_a_status(void) {
  IngotStudy* study = NULL;
  IngotTrial* trial = NULL;
  IngotStudyOptions options = options_of(1);
  options.direction = "sideways";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "sideways", ingot_study_open(kSpace, &options, &study));
  options = options_of(1);
  options.sampler = "dice";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "dice", ingot_study_open(kSpace, &options, &study));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "low", ingot_study_open("x: {low: 3, high: 1}\n", NULL, &study));
  CHECK_FAILS(
      INGOT_INVALID_CONFIG, "grid",
      ingot_study_open(
          NULL, &(IngotStudyOptions){sizeof options, .sampler = "grid", .trials = 3, .lease_seconds = 60},
          &study));
  CHECK(study == NULL);
  options = options_of(3);
  CHECK_OK(ingot_study_open(kSpace, &options, &study));
  CHECK_OK(ingot_study_ask(study, &trial));
  double value = 0;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "not a parameter", ingot_trial_value(trial, "z", &value));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "whose space is given",
              ingot_trial_suggest(trial, "x", "{\"low\": 0, \"high\": 1}", &value));
  CHECK_OK(ingot_trial_fail(trial, "on purpose"));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "failed", ingot_trial_report(trial, 1, 1, &(int32_t){0}));
  CHECK_OK(ingot_trial_close(trial));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "trial", ingot_trial_complete(trial, 1));
  CHECK_OK(ingot_study_ask(study, &trial)); /* left running: closing the study puts it back */
  CHECK_OK(ingot_study_close(study));
  CHECK_OK(ingot_trial_close(trial));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "study", ingot_study_ask(study, &trial));
}

const TestCase tune_tests[] = {{"tune: asks, reports and finds the best", asks_reports_and_finds_the_best},
                               {"tune: threads share a study", threads_share_a_study},
                               {"tune: a study in a file goes on", a_study_in_a_file_goes_on},
                               {"tune: several objectives have a front", several_objectives_have_a_front},
                               {"tune: trials say what they search", trials_say_what_they_search},
                               {"tune: what cannot be is a status", what_cannot_be_is_a_status},
                               {NULL, NULL}};
