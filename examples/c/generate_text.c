/* Continues a prompt with a language model and prints the text as it comes. */
#include <ingot/ingot.h>
#include <stdio.h>

static int32_t show(const char* text, size_t bytes, void* user) {
  (void)user;
  return fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0; /* anything but 0 ends the text */
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]), 2;
  IngotSession* session = NULL;
  IngotGenerateOptions options;
  if (ingot_session_open(argv[1], NULL, &session) != INGOT_OK || /* a directory, or a .gguf file */
      ingot_generate_options(session, &options, sizeof options) != INGOT_OK)
    return fprintf(stderr, "error: %s\n", ingot_last_error()->message), 1;
  options.max_tokens = 64;
  const IngotStatus status = ingot_session_generate(session, argv[2], &options, show, NULL, NULL);
  printf("\n");
  ingot_session_close(session);
  return status == INGOT_OK ? 0 : (fprintf(stderr, "error: %s\n", ingot_last_error()->message), 1);
}
