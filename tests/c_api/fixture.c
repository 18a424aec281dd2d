#define _POSIX_C_SOURCE 200809L
#include "fixture.h"

#include <sys/stat.h>

static char directory[1024];

void write_file(const char* path, const char* text) {
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

void copy_file(const char* from, const char* to) {
  char block[65536];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  CHECK(in != NULL && out != NULL);
  for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) CHECK(fwrite(block, 1, n, out) == n);
  fclose(in);
  fclose(out);
}

static void write_tokenizer(const char* path) {
  char json[4096], *at = json;
  at += sprintf(at, "{\"version\":\"1.0\",\"added_tokens\":[");
  const char* special[] = {"<eos>", "<turn>", "<end>"};
  for (int i = 0; i < 3; ++i)
    at += sprintf(at,
                  "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                  "\"normalized\":false,\"special\":true}",
                  i > 0 ? "," : "", i, special[i]);
  at += sprintf(
      at,
      "],\"normalizer\":null,\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":{\"type\":\"Fuse\"},"
      "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<eos>\":0,\"<turn>\":1,\"<end>\":2");
  const char* characters = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.!?,:";
  for (int i = 0; characters[i] != '\0'; ++i) at += sprintf(at, ",\"%c\":%d", characters[i], i + 3);
  sprintf(at, "},\"merges\":[]}}");
  write_file(path, json);
}

const char* tiny_model(void) {
  if (directory[0] != '\0') return directory;
  snprintf(directory, sizeof directory, "%s", temporary("tiny"));
  CHECK(mkdir(directory, 0777) == 0);
  const char* names[] = {"config.json", "model.safetensors"};
  char from[1024], to[1200];
  for (int i = 0; i < 2; ++i) {
    snprintf(from, sizeof from, "%s/%s", source_file("tests/models/goldens/llama_gqa_llama3"), names[i]);
    snprintf(to, sizeof to, "%s/%s", directory, names[i]);
    copy_file(from, to);
  }
  snprintf(to, sizeof to, "%s/tokenizer.json", directory);
  write_tokenizer(to);
  snprintf(to, sizeof to, "%s/tokenizer_config.json", directory);
  write_file(to, "{\"eos_token\": \"<eos>\"}");
  snprintf(to, sizeof to, "%s/chat_template.jinja", directory);
  write_file(
      to,
      "{% if tools %}T{% endif %}{% for m in messages %}<turn>{{ m.role }}:{{ m.content }}<end>{% endfor %}"
      "{% if add_generation_prompt %}<turn>{% endif %}");
  return directory;
}

IngotSession* tiny_session(void) {
  IngotSession* session = NULL;
  CHECK_OK(ingot_session_open(tiny_model(), NULL, &session));
  return session;
}
