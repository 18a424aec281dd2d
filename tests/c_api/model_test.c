#include "fixture.h"
#include <pthread.h>

static IngotGenerateOptions greedy(const IngotSession* session, int64_t max_tokens) {
  IngotGenerateOptions options;
  CHECK_OK(ingot_generate_options(session, &options, sizeof options));
  options.temperature = 0;
  options.max_tokens = max_tokens;
  return options;
}

static IngotGenerationInfo info_of(const IngotGeneration* generation) {
  IngotGenerationInfo info = {0};
  CHECK_OK(ingot_generation_info(generation, &info, sizeof info));
  return info;
}

static void logits_are_those_of_transformers(void) {
  IngotSession* session = tiny_session();
  IngotWeights* golden = NULL;
  IngotTensor *tokens = NULL, *first = NULL, *wanted = NULL, *logits = NULL;
  CHECK_OK(
      ingot_weights_open(source_file("tests/models/goldens/llama_gqa_llama3/expected.safetensors"), &golden));
  CHECK_OK(ingot_weights_load(golden, "tokens", &tokens));
  CHECK_OK(ingot_weights_load(golden, "logits", &first));
  int64_t wide[2 * 23];
  int32_t ids[23];
  CHECK_OK(ingot_tensor_read(tokens, wide, sizeof wide));
  for (int i = 0; i < 23; ++i) ids[i] = (int32_t)wide[i];
  CHECK_OK(ingot_tensor_select(first, 0, 0, &wanted));
  CHECK_OK(ingot_session_logits(session, ids, 23, &logits));
  static float expected[23 * 61], actual[23 * 61];
  CHECK_OK(ingot_tensor_read(wanted, expected, sizeof expected));
  CHECK_OK(ingot_tensor_read(logits, actual, sizeof actual));
  for (int i = 0; i < 23 * 61; ++i) CHECK(NEAR(actual[i], expected[i]));
  IngotTensor* all[] = {tokens, first, wanted, logits};
  for (size_t i = 0; i < 4; ++i) CHECK_OK(ingot_tensor_close(all[i]));
  ids[0] = 61;
  CHECK_FAILS(INGOT_INVALID_CONFIG, "61", ingot_session_logits(session, ids, 23, &logits));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "count", ingot_session_logits(session, ids, 0, &logits));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "ids is NULL", ingot_session_logits(session, NULL, 2, &logits));
  CHECK_OK(ingot_weights_close(golden));
  CHECK_OK(ingot_session_close(session));
}

static void a_session_says_what_its_model_is(void) {
  IngotSession* session = tiny_session();
  IngotModelInfo info;
  CHECK_OK(ingot_session_info(session, &info, sizeof info));
  CHECK(strcmp(info.model_type, "llama") == 0 && strcmp(info.device, "cpu") == 0);
  CHECK(info.vocab_size == 61 && info.context == 64 && info.layers == 2 && info.hidden_size == 24);
  CHECK(info.parameters > 10000 && info.has_chat_template == 1);
  CHECK_OK(ingot_session_close(session));
}

static void tokenize_and_detokenize_are_inverse(void) {
  IngotSession* session = tiny_session();
  int32_t* ids = NULL;
  size_t count = 0, bytes = 0;
  char* text = NULL;
  CHECK_OK(ingot_session_tokenize(session, "ab c<end>", 1, &ids, &count));
  CHECK(count == 5 && ids[0] == 4 && ids[1] == 5 && ids[2] == 3 && ids[4] == 2);
  CHECK_OK(ingot_session_detokenize(session, ids, count, 0, &text, &bytes));
  CHECK(strcmp(text, "ab c<end>") == 0 && bytes == 9);
  ingot_free(text);
  CHECK_OK(ingot_session_detokenize(session, ids, count, 1, &text, NULL));
  CHECK(strcmp(text, "ab c") == 0);
  ingot_free(text);
  ingot_free(ids);
  CHECK_OK(ingot_session_tokenize(session, "", 1, &ids, &count));
  CHECK(count == 0 && ids != NULL);
  ingot_free(ids);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "text is NULL", ingot_session_tokenize(session, NULL, 1, &ids, &count));
  CHECK_OK(ingot_session_close(session));
}

static void greedy_text_is_the_largest_logit_each_time(void) {
  IngotSession* session = tiny_session();
  IngotGenerateOptions options = greedy(session, 6);
  options.ignore_end_tokens = 1;
  options.logprobs = 0;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_session_generate(session, "hello", &options, NULL, NULL, &generation));
  IngotGenerationInfo info = info_of(generation);
  CHECK(info.token_count == 6 && info.prompt_tokens == 5 && strcmp(info.reason, "max_tokens") == 0);
  CHECK(info.logprobs != NULL && info.logprobs[0] < 0 && strlen(info.text) == info.text_bytes);
  int32_t* ids = NULL;
  size_t count = 0;
  CHECK_OK(ingot_session_tokenize(session, "hello", 1, &ids, &count));
  int32_t all[11];
  memcpy(all, ids, sizeof(int32_t) * 5);
  memcpy(all + 5, info.tokens, sizeof(int32_t) * 6);
  IngotTensor *logits = NULL, *best = NULL;
  CHECK_OK(ingot_session_logits(session, all, 11, &logits));
  CHECK_OK(ingot_argmax(logits, -1, NULL, &best));
  int64_t most_probable[11];
  CHECK_OK(ingot_tensor_read(best, most_probable, sizeof most_probable));
  for (int i = 0; i < 6; ++i) CHECK(most_probable[4 + i] == all[5 + i]);
  ingot_free(ids);
  CHECK_OK(ingot_tensor_close(logits));
  CHECK_OK(ingot_tensor_close(best));
  CHECK_OK(ingot_generation_close(generation));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "generation", ingot_generation_info(generation, &info, sizeof info));
  CHECK_OK(ingot_session_close(session));
}

typedef struct {
  char text[256];
  int calls, stop_after;
  IngotSession* session;
} Heard;

static int32_t hear(const char* text, size_t bytes, void* user) {
  Heard* heard = user;
  strncat(heard->text, text, bytes);
  /* The session is at work: a call from here is refused, and the text goes on. */
  if (heard->session != NULL)
    CHECK_FAILS(INGOT_BUSY, "in use", ingot_session_generate(heard->session, "a", NULL, NULL, NULL, NULL));
  return ++heard->calls == heard->stop_after;
}

static void a_callback_gets_the_text_and_can_stop_it(void) {
  IngotSession* session = tiny_session();
  IngotGenerateOptions options = greedy(session, 12);
  options.ignore_end_tokens = 1;
  IngotGeneration* generation = NULL;
  Heard all = {.session = session}, some = {.stop_after = 2};
  CHECK_OK(ingot_session_generate(session, "Well", &options, hear, &all, &generation));
  CHECK(strcmp(info_of(generation).text, all.text) == 0 && all.calls > 2);
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_session_generate(session, "Well", &options, hear, &some, &generation));
  CHECK(strcmp(info_of(generation).reason, "cancelled") == 0);
  CHECK(some.calls == 2 && strncmp(all.text, some.text, strlen(some.text)) == 0);
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_session_close(session));
}

static void options_change_the_text_and_bad_ones_are_named(void) {
  IngotSession* session = tiny_session();
  IngotGenerateOptions options = greedy(session, 8);
  options.ignore_end_tokens = 1;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_session_generate(session, "abc", &options, NULL, NULL, &generation));
  const char second[2] = {info_of(generation).text[1], '\0'};
  const int32_t first_token = info_of(generation).tokens[0];
  CHECK_OK(ingot_generation_close(generation));
  const char* stops[] = {second};
  options.stop = stops;
  options.stop_count = 1;
  CHECK_OK(ingot_session_generate(session, "abc", &options, NULL, NULL, &generation));
  CHECK(strcmp(info_of(generation).reason, "stop_string") == 0 &&
        strchr(info_of(generation).text, second[0]) == NULL);
  CHECK_OK(ingot_generation_close(generation));
  options.stop_count = 0;
  const float never = -INFINITY;
  options.logit_bias_ids = &first_token;
  options.logit_biases = &never;
  options.logit_bias_count = 1;
  CHECK_OK(ingot_session_generate(session, "abc", &options, NULL, NULL, &generation));
  CHECK(info_of(generation).tokens[0] != first_token);
  CHECK_OK(ingot_generation_close(generation));
  options.temperature = -1;
  CHECK_FAILS(INGOT_INVALID_CONFIG, "temperature",
              ingot_session_generate(session, "a", &options, NULL, NULL, NULL));
  CHECK(ingot_last_error()->key != NULL);
  options = greedy(session, 8);
  options.stop_count = 1;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "stop",
              ingot_session_generate(session, "a", &options, NULL, NULL, NULL));
  int32_t wrong = 99;
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "99",
              ingot_session_generate_ids(session, &wrong, 1, NULL, NULL, NULL, &generation));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "prompt is NULL",
              ingot_session_generate(session, NULL, NULL, NULL, NULL, &generation));
  CHECK(generation == NULL);
  CHECK_OK(ingot_session_close(session));
}

static int32_t forbid_what_was_there(float* logits, size_t vocab, const int32_t* ids, size_t count,
                                     void* user) {
  if (user != NULL) return 7;
  for (size_t i = 0; i < count; ++i)
    if ((size_t)ids[i] < vocab) logits[ids[i]] = -INFINITY;
  return 0;
}

static void constraints_and_processors_decide_what_is_written(void) {
  IngotSession* session = tiny_session();
  IngotGenerateOptions options = greedy(session, 12);
  IngotGeneration* generation = NULL;
  options.constraint = INGOT_CONSTRAINT_REGEX;
  options.constraint_source = "[ab]{3}c";
  CHECK_OK(ingot_session_generate(session, "hello", &options, NULL, NULL, &generation));
  CHECK(strspn(info_of(generation).text, "ab") == 3 && strcmp(info_of(generation).text + 3, "c") == 0);
  CHECK(strcmp(info_of(generation).reason, "grammar_end") == 0);
  CHECK_OK(ingot_generation_close(generation));
  const char* choices[] = {"yes", "no"};
  options.constraint = INGOT_CONSTRAINT_CHOICE;
  options.choices = choices;
  options.choice_count = 2;
  CHECK_OK(ingot_session_generate(session, "hello", &options, NULL, NULL, &generation));
  CHECK(strcmp(info_of(generation).text, "yes") == 0 || strcmp(info_of(generation).text, "no") == 0);
  CHECK_OK(ingot_generation_close(generation));
  options.constraint = INGOT_CONSTRAINT_REGEX;
  options.constraint_source = "[";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "regex",
              ingot_session_generate(session, "a", &options, NULL, NULL, NULL));
  options.constraint_source = NULL;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "constraint_source",
              ingot_session_generate(session, "a", &options, NULL, NULL, NULL));
  options.constraint = 99;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "constraint",
              ingot_session_generate(session, "a", &options, NULL, NULL, NULL));
  options = greedy(session, 12);
  options.ignore_end_tokens = 1;
  options.logits_processor = forbid_what_was_there;
  CHECK_OK(ingot_session_generate(session, "abc", &options, NULL, NULL, &generation));
  const IngotGenerationInfo info = info_of(generation);
  for (size_t i = 0; i < info.token_count; ++i)
    for (size_t j = 0; j < i; ++j) CHECK(info.tokens[i] != info.tokens[j]);
  CHECK_OK(ingot_generation_close(generation));
  options.logits_processor_user = &options;
  CHECK_FAILS(INGOT_ERROR, "7", ingot_session_generate(session, "abc", &options, NULL, NULL, NULL));
  CHECK_OK(ingot_session_close(session));
}

static void chat_applies_the_template(void) {
  IngotSession* session = tiny_session();
  const char* messages = "[{\"role\": \"user\", \"content\": \"hi\"}]";
  char* text = NULL;
  CHECK_OK(ingot_session_chat_prompt(session, messages, NULL, &text));
  CHECK(strcmp(text, "<turn>user:hi<end><turn>") == 0);
  ingot_free(text);
  CHECK_OK(ingot_session_chat_prompt(session, messages, "[{\"name\": \"f\"}]", &text));
  CHECK(text[0] == 'T');
  ingot_free(text);
  IngotGenerateOptions options = greedy(session, 4);
  IngotGeneration *answer = NULL, *same = NULL;
  CHECK_OK(ingot_session_chat(session, messages, NULL, &options, NULL, NULL, &answer));
  CHECK_OK(ingot_session_generate(session, "<turn>user:hi<end><turn>", &options, NULL, NULL, &same));
  CHECK(strcmp(info_of(answer).text, info_of(same).text) == 0);
  CHECK_OK(ingot_generation_close(answer));
  CHECK_OK(ingot_generation_close(same));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "messages", ingot_session_chat_prompt(session, "{ no list", NULL, &text));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "messages", ingot_session_chat_prompt(session, "[1, 2]", NULL, &text));
  CHECK(ingot_session_chat_prompt(session, messages, "nonsense", &text) != INGOT_OK);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "messages is NULL",
              ingot_session_chat_prompt(session, NULL, NULL, &text));
  CHECK(text == NULL);
  CHECK_OK(ingot_session_close(session));
}

static void a_model_that_cannot_be_opened_is_named(void) {
  IngotSession* session = NULL;
  CHECK_FAILS(INGOT_IO_ERROR, "no-such-model", ingot_session_open("no-such-model", NULL, &session));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "model is NULL", ingot_session_open(NULL, NULL, &session));
  IngotSessionOptions options;
  CHECK_OK(ingot_session_options(&options, sizeof options));
  options.format = "q9_9";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "q9_9", ingot_session_open(tiny_model(), &options, &session));
  options.format = NULL;
  options.device = "cuda:6";
  CHECK_FAILS(INGOT_DEVICE_NOT_AVAILABLE, "cuda:6", ingot_session_open(tiny_model(), &options, &session));
  options.device = NULL;
  options.adapter_count = 1;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "adapters", ingot_session_open(tiny_model(), &options, &session));
  const char* nothing[] = {"no-such-adapter"};
  options.adapters = nothing;
  CHECK_FAILS(INGOT_IO_ERROR, "no-such-adapter", ingot_session_open(tiny_model(), &options, &session));
  CHECK(session == NULL);
}

typedef struct {
  IngotSession* session;
  int busy, done;
} Rival;

static void* generate_until_done(void* user) {
  Rival* rival = user;
  for (int i = 0; i < 6; ++i) {
    IngotGenerateOptions options = greedy(rival->session, 20);
    options.ignore_end_tokens = 1;
    const IngotStatus status = ingot_session_generate(rival->session, "abc", &options, NULL, NULL, NULL);
    CHECK(status == INGOT_OK || status == INGOT_BUSY);
    ++*(status == INGOT_OK ? &rival->done : &rival->busy);
  }
  return NULL;
}

static void two_threads_on_one_session_is_a_status(void) {
  Rival rivals[2] = {{tiny_session(), 0, 0}, {NULL, 0, 0}};
  rivals[1].session = rivals[0].session;
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, generate_until_done, &rivals[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  CHECK(rivals[0].done + rivals[1].done > 0);
  CHECK_OK(ingot_session_close(rivals[0].session));
}

static void an_embedder_writes_vectors_into_the_callers_array(void) {
  IngotEmbedder* embedder = NULL;
  CHECK_OK(ingot_embedder_open(source_file("tests/infer/goldens/sentences/dense"), NULL, NULL, &embedder));
  int64_t dimension = 0;
  CHECK_OK(ingot_embedder_dimension(embedder, &dimension));
  CHECK(dimension == 6);
  const char* texts[] = {"A cat sleeps.", "stocks fell"};
  /* of sentence-transformers: tests/infer/goldens/sentences/dense/golden.json */
  const float wanted[] = {-0.0583398F, -0.0962263F, -0.1045019F, 0.8669391F, 0.4600629F, -0.1147823F,
                          -0.0475916F, -0.0887519F, -0.0919692F, 0.869864F,  0.4610579F, -0.1102813F};
  float vectors[12] = {0};
  CHECK_OK(ingot_embedder_embed(embedder, texts, 2, NULL, vectors, 12));
  for (int i = 0; i < 12; ++i) CHECK(NEAR(vectors[i], wanted[i]));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "need 12",
              ingot_embedder_embed(embedder, texts, 2, NULL, vectors, 11));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "vectors is NULL",
              ingot_embedder_embed(embedder, texts, 2, NULL, NULL, 12));
  texts[1] = NULL;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "texts is NULL",
              ingot_embedder_embed(embedder, texts, 2, NULL, vectors, 12));
  CHECK_OK(ingot_embedder_close(embedder));
}

const TestCase model_tests[] = {
    {"session: logits are those of transformers", logits_are_those_of_transformers},
    {"session: says what its model is", a_session_says_what_its_model_is},
    {"session: tokenize and detokenize are inverse", tokenize_and_detokenize_are_inverse},
    {"session: greedy text is the largest logit each time", greedy_text_is_the_largest_logit_each_time},
    {"session: a callback gets the text and can stop it", a_callback_gets_the_text_and_can_stop_it},
    {"session: options change the text, bad ones are named", options_change_the_text_and_bad_ones_are_named},
    {"session: constraints and processors decide what is written",
     constraints_and_processors_decide_what_is_written},
    {"session: chat applies the template", chat_applies_the_template},
    {"session: a model that cannot be opened is named", a_model_that_cannot_be_opened_is_named},
    {"session: two threads on one are a status", two_threads_on_one_session_is_a_status},
    {"embedder: writes vectors into the caller's array", an_embedder_writes_vectors_into_the_callers_array},
    {NULL, NULL}};
