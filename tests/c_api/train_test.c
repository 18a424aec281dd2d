#define _POSIX_C_SOURCE 200809L
#include "fixture.h"
#include <pthread.h>
#include <sys/stat.h>

/* A configuration of a tiny model that trains into the temporary folder's `output`. */
static const char* configuration(const char* output) {
  static char yaml[4096];
  static char text[1024];
  if (text[0] == '\0') {
    snprintf(text, sizeof text, "%s", temporary("train.txt"));
    FILE* file = fopen(text, "wb");
    for (int i = 0; i < 80; ++i) fprintf(file, "The number %d is followed by the number %d.\n", i, i + 1);
    fclose(file);
  }
  snprintf(
      yaml, sizeof yaml,
      "from_scratch: true\n"
      "architecture: {hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2,\n"
      "               num_key_value_heads: 1}\n"
      "vocab_size: 280\n"
      "datasets: [{path: %s, ds_type: text}]\n"
      "output_dir: %s\n"
      "cache_dir: %s\n"
      "sequence_len: 32\n"
      "per_device_train_batch_size: 4\n"
      "learning_rate: 0.01\n"
      "max_steps: 4\n"
      "eval_steps: 2\n"
      "eval_batches: 2\n"
      "report_to: [jsonl]\n"
      "device: cpu\n"
      "threads: 1\n",
      text, output, temporary("cache"));
  return yaml;
}

typedef struct {
  int steps, evaluations, saved, stop_after;
  double losses[16];
} Seen;

static void on_step(const IngotTrainStep* step, void* user) {
  Seen* seen = user;
  if (step->step <= 16) seen->losses[step->step - 1] = step->loss;
  ++seen->steps;
}
static void on_evaluation(int64_t step, double loss, int32_t is_best, void* user) {
  CHECK(step > 0 && isfinite(loss) && (is_best == 0 || is_best == 1));
  ++((Seen*)user)->evaluations;
}
static void on_saved(const char* checkpoint, void* user) {
  CHECK(strstr(checkpoint, "checkpoint") != NULL);
  ++((Seen*)user)->saved;
}
static int32_t should_stop(void* user) {
  const Seen* seen = user;
  return seen->stop_after > 0 && seen->steps >= seen->stop_after;
}

static IngotTrainerOptions options_for(Seen* seen) {
  IngotTrainerOptions options;
  CHECK_OK(ingot_trainer_options(&options, sizeof options));
  options.callbacks = (IngotTrainCallbacks){on_step, on_evaluation, on_saved, should_stop, seen};
  return options;
}

static void a_run_steps_evaluates_and_writes_a_model_that_opens(void) {
  Seen seen = {0};
  const IngotTrainerOptions options = options_for(&seen);
  IngotTrainer* trainer = NULL;
  CHECK_OK(ingot_trainer_open_text(configuration(temporary("run")), &options, &trainer));
  IngotTrainerInfo info;
  CHECK_OK(ingot_trainer_info(trainer, &info, sizeof info));
  CHECK(info.total_steps == 4 && info.steps_done == 0 && info.tokens_per_step == 128);
  CHECK(info.parameters > 1000 && strcmp(info.device, "cpu") == 0);
  double before = 0, after = 0;
  CHECK_OK(ingot_trainer_evaluate(trainer, &before));
  int32_t more = 1;
  for (int64_t i = 1; more; ++i) {
    IngotTrainStep step;
    CHECK_OK(ingot_trainer_step(trainer, &step, sizeof step, &more));
    CHECK(step.step == i && isfinite(step.loss) && step.grad_norm > 0 && step.seconds > 0);
    CHECK(step.loss == seen.losses[i - 1]);
  }
  IngotTrainResult result;
  CHECK_OK(ingot_trainer_finish(trainer, &result, sizeof result));
  CHECK(strcmp(result.end, "finished") == 0 && result.steps == 4 && result.checkpoint != NULL);
  CHECK_OK(ingot_trainer_evaluate(trainer, &after));
  CHECK(after < before && NEAR(after, result.validation_loss));
  CHECK(seen.steps == 4 && seen.evaluations == 2 && seen.saved == 1);
  IngotSession* session = NULL;
  CHECK_OK(ingot_session_open(result.model, NULL, &session));
  CHECK_OK(ingot_session_close(session));
  CHECK_OK(ingot_trainer_close(trainer));
}

static void a_saved_run_is_resumed_with_the_same_losses(void) {
  Seen whole = {0}, first = {0}, second = {0};
  IngotTrainerOptions options = options_for(&whole);
  IngotTrainer* trainer = NULL;
  IngotTrainResult result;
  CHECK_OK(ingot_trainer_open_text(configuration(temporary("whole")), &options, &trainer));
  CHECK_OK(ingot_trainer_run(trainer));
  CHECK_OK(ingot_trainer_close(trainer));
  const char* output = temporary("halves");
  options = options_for(&first);
  CHECK_OK(ingot_trainer_open_text(configuration(output), &options, &trainer));
  int32_t more = 0;
  for (int i = 0; i < 2; ++i) CHECK_OK(ingot_trainer_step(trainer, NULL, 0, &more));
  char* checkpoint = NULL;
  CHECK_OK(ingot_trainer_save(trainer, &checkpoint));
  struct stat status;
  CHECK(stat(checkpoint, &status) == 0);
  ingot_free(checkpoint);
  CHECK_OK(ingot_trainer_close(trainer));
  options = options_for(&second);
  CHECK_FAILS(INGOT_INVALID_CONFIG, "checkpoints",
              ingot_trainer_open_text(configuration(output), &options, &trainer));
  options.resume = 1;
  CHECK_OK(ingot_trainer_open_text(configuration(output), &options, &trainer));
  IngotTrainerInfo info;
  CHECK_OK(ingot_trainer_info(trainer, &info, sizeof info));
  CHECK(info.steps_done == 2);
  CHECK_OK(ingot_trainer_run(trainer));
  CHECK_OK(ingot_trainer_finish(trainer, &result, sizeof result));
  CHECK(second.steps == 2 && memcmp(&second.losses[2], &whole.losses[2], 2 * sizeof(double)) == 0);
  CHECK_OK(ingot_trainer_close(trainer));
}

static void a_callback_or_an_interrupt_stops_the_run(void) {
  Seen seen = {.stop_after = 2};
  IngotTrainerOptions options = options_for(&seen);
  IngotTrainer* trainer = NULL;
  IngotTrainResult result;
  CHECK_OK(ingot_trainer_open_text(configuration(temporary("stopped")), &options, &trainer));
  CHECK_OK(ingot_trainer_run(trainer));
  CHECK_OK(ingot_trainer_finish(trainer, &result, sizeof result));
  CHECK(strcmp(result.end, "stopped") == 0 && result.steps == 2 && result.model == NULL);
  CHECK_OK(ingot_trainer_close(trainer));
  CHECK_OK(ingot_trainer_open_text(configuration(temporary("interrupted")), NULL, &trainer));
  CHECK_OK(ingot_trainer_interrupt(trainer));
  CHECK_OK(ingot_trainer_run(trainer));
  CHECK_OK(ingot_trainer_finish(trainer, &result, sizeof result));
  CHECK(strcmp(result.end, "stopped") == 0 && result.steps == 1);
  CHECK_OK(ingot_trainer_close(trainer));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "trainer", ingot_trainer_interrupt(trainer));
}

static void a_directory_that_was_moved_before_the_end_is_an_error(void) {
  IngotTrainer* trainer = NULL;
  IngotTrainResult result;
  char output[1024], elsewhere[1024];
  snprintf(output, sizeof output, "%s", temporary("moved"));
  snprintf(elsewhere, sizeof elsewhere, "%s", temporary("elsewhere"));
  CHECK_OK(ingot_trainer_open_text(configuration(output), NULL, &trainer));
  CHECK_OK(ingot_trainer_run(trainer));
  CHECK(rename(output, elsewhere) == 0);
  CHECK_FAILS(INGOT_IO_ERROR, "moved", ingot_trainer_finish(trainer, &result, sizeof result));
  CHECK_OK(ingot_trainer_close(trainer));
}

static void a_configuration_that_cannot_be_is_named(void) {
  IngotTrainer* trainer = NULL;
  IngotTrainerOptions options;
  CHECK_OK(ingot_trainer_options(&options, sizeof options));
  const char* wrong[] = {"lerning_rate=1"};
  options.set = wrong;
  options.set_count = 1;
  const char* yaml = configuration(temporary("never"));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "learning_rate", ingot_trainer_open_text(yaml, &options, &trainer));
  CHECK(strstr(ingot_last_error()->key, "lerning_rate") != NULL);
  wrong[0] = "learning_rate=-1";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "learning_rate", ingot_trainer_open_text(yaml, &options, &trainer));
  wrong[0] = "datasets.0.path=no-such-file.txt";
  CHECK(ingot_trainer_open_text(yaml, &options, &trainer) != INGOT_OK);
  CHECK(strstr(ingot_last_error()->message, "no-such-file.txt") != NULL);
  CHECK_FAILS(INGOT_IO_ERROR, "no-such.yaml", ingot_trainer_open("no-such.yaml", NULL, &trainer));
  CHECK(ingot_trainer_open_text("{ not yaml", NULL, &trainer) != INGOT_OK);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "yaml is NULL", ingot_trainer_open_text(NULL, NULL, &trainer));
  CHECK(trainer == NULL);
}

const TestCase train_tests[] = {
    {"train: a run steps, evaluates and writes a model", a_run_steps_evaluates_and_writes_a_model_that_opens},
    {"train: a saved run is resumed with the same losses", a_saved_run_is_resumed_with_the_same_losses},
    {"train: a callback or an interrupt stops the run", a_callback_or_an_interrupt_stops_the_run},
    {"train: a directory that was moved before the end is an error",
     a_directory_that_was_moved_before_the_end_is_an_error},
    {"train: a configuration that cannot be is named", a_configuration_that_cannot_be_is_named},
    {NULL, NULL}};
