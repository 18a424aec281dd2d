/* Trains a language model as a YAML file says (docs/training.md), and prints each step. */
#include <ingot/ingot.h>
#include <stdio.h>

static void show(const IngotTrainStep* step, void* user) {
  (void)user;
  printf("%6lld  loss %.4f  %.0f tokens/s\n", (long long)step->step, step->loss, step->tokens_per_second);
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s CONFIG.yaml [key=value]...\n", argv[0]), 2;
  IngotTrainer* trainer = NULL;
  IngotTrainerOptions options;
  IngotTrainResult result;
  ingot_trainer_options(&options, sizeof options);
  options.set = (const char* const*)&argv[2];
  options.set_count = (size_t)argc - 2;
  options.callbacks.on_step = show;
  if (ingot_trainer_open(argv[1], &options, &trainer) != INGOT_OK || ingot_trainer_run(trainer) != INGOT_OK ||
      ingot_trainer_finish(trainer, &result, sizeof result) != INGOT_OK)
    return fprintf(stderr, "error: %s\n", ingot_last_error()->message), 1;
  printf("%s after %lld steps: %s\n", result.end, (long long)result.steps,
         result.model != NULL ? result.model : result.checkpoint);
  ingot_trainer_close(trainer);
}
