#define _GNU_SOURCE /* mallinfo2 */
#include "fixture.h"
#include <dlpack/dlpack.h>
#include <malloc.h>

/* What is allocated now, by malloc and for tensors. (0 by malloc under AddressSanitizer, which looks for
 * itself.) */
static size_t in_use(void) {
  IngotMemoryInfo tensors;
  CHECK_OK(ingot_device_memory("cpu", &tensors, sizeof tensors));
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd + (size_t)tensors.allocated;
}

/* INGOT_THOROUGH=1: a hundred thousand rounds of everything. */
static int rounds(int usual) { return getenv("INGOT_THOROUGH") != NULL ? 100000 : usual; }

/* Half of the rounds fills what is kept for later. Of the others each would leave 32 bytes, the least that
 * malloc gives, if it left anything. */
static void leaves_nothing_behind(int count, void (*round)(void* user), void* user) {
  const int half = count / 2;
  for (int i = 0; i < half; ++i) round(user);
  const size_t before = in_use();
  for (int i = half; i < count; ++i) round(user);
  const size_t after = in_use();
  const size_t kept = after > before ? after - before : 0, allowed = 16 * (size_t)(count - half);
  if (kept >= allowed) fprintf(stderr, "%zu bytes are left of %d rounds\n", kept, count - half);
  CHECK(kept < allowed);
}

static void delete_nothing(void* user) { ++*(int64_t*)user; }

static void use_tensors(void* user) {
  float mine[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  IngotTensor *view = NULL, *turned = NULL, *product = NULL, *again = NULL, *none = NULL;
  struct DLManagedTensor* managed = NULL;
  CHECK_OK(ingot_tensor_view(mine, shape, NULL, 2, INGOT_F32, NULL, delete_nothing, user, &view));
  CHECK_OK(ingot_tensor_transpose(view, 0, 1, &turned));
  CHECK_OK(ingot_matmul(view, turned, NULL, &product));
  CHECK_OK(ingot_tensor_to_dlpack(product, &managed));
  CHECK_OK(ingot_tensor_from_dlpack(managed, &again));
  CHECK_OK(ingot_tensor_to_dlpack(again, &managed));
  managed->deleter(managed); /* that nobody takes */
  CHECK_FAILS(INGOT_SHAPE_MISMATCH, "", ingot_matmul(view, view, NULL, &none));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "", ingot_tensor_select((IngotTensor*)mine, 0, 0, &none));
  IngotTensor* all[] = {view, turned, product, again};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) CHECK_OK(ingot_tensor_close(all[i]));
}

static void a_hundred_thousand_tensor_calls_leave_no_memory_behind(void) {
  int64_t deleted = 0;
  const int count = rounds(10000); /* of twelve calls */
  leaves_nothing_behind(count, use_tensors, &deleted);
  CHECK(deleted == count);
}

static int32_t end_after_two(const char* text, size_t bytes, void* user) {
  (void)text;
  (void)bytes;
  return ++*(int*)user == 2;
}

static int32_t change_logits(float* logits, size_t vocab, const int32_t* ids, size_t count, void* user) {
  (void)ids;
  (void)count;
  (void)user;
  logits[vocab - 1] -= 1;
  return 0;
}

static void use_a_session(void* user) {
  IngotSession* session = user;
  IngotGeneration* generation = NULL;
  IngotTensor* logits = NULL;
  const int32_t ids[] = {4, 5};
  const char* const choices[] = {"ab", "c"};
  int pieces = 0;
  char* prompt = NULL;
  IngotGenerateOptions options;
  CHECK_OK(ingot_generate_options(session, &options, sizeof options));
  options.max_tokens = 4;
  options.ignore_end_tokens = 1;
  options.logprobs = 1;
  options.logits_processor = change_logits;
  CHECK_OK(ingot_session_generate(session, "ab", &options, end_after_two, &pieces, &generation));
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_session_logits(session, ids, 2, &logits));
  CHECK_OK(ingot_tensor_close(logits));
  CHECK_OK(ingot_session_chat_prompt(session, "[{\"role\": \"user\", \"content\": \"a\"}]", NULL, &prompt));
  ingot_free(prompt);
  options.ignore_end_tokens = 0;
  options.constraint = INGOT_CONSTRAINT_CHOICE;
  options.choices = choices;
  options.choice_count = 2;
  CHECK_OK(ingot_session_generate(session, "ab", &options, NULL, NULL, NULL));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "", ingot_session_chat(session, "{", NULL, NULL, NULL, NULL, NULL));
}

static void sessions_leave_no_memory_behind(void) {
  IngotSession* session = tiny_session();
  leaves_nothing_behind(rounds(300), use_a_session, session);
  CHECK_OK(ingot_session_close(session));
}

static void on_end(const char* reason, void* user) {
  (void)reason;
  (void)user;
}

static void use_a_scheduler(void* user) {
  int pieces = 0;
  IngotScheduler* scheduler = user;
  const IngotRequestCallbacks callbacks = {.on_text = end_after_two, .on_end = on_end, .user = &pieces};
  IngotGenerateOptions options;
  CHECK_OK(ingot_generate_options(NULL, &options, sizeof options));
  options.max_tokens = 4;
  options.ignore_end_tokens = 1;
  IngotRequest *asked = NULL, *left = NULL;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_scheduler_submit(scheduler, "ab", &options, &callbacks, &asked));
  CHECK_OK(ingot_scheduler_submit(scheduler, "ab", &options, NULL, &left));
  CHECK_OK(ingot_request_cancel(left));
  CHECK_OK(ingot_request_wait(asked, -1, &generation));
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_wait(left, -1, &generation));
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_close(asked));
  CHECK_OK(ingot_request_close(left));
}

static void requests_leave_no_memory_behind(void) {
  IngotSession* session = tiny_session();
  IngotScheduler* scheduler = NULL;
  CHECK_OK(ingot_scheduler_open(session, NULL, &scheduler));
  /* Whether the last two requests were in one batch decides which caches the pool keeps: some 10 KB, once. */
  leaves_nothing_behind(rounds(3000), use_a_scheduler, scheduler);
  CHECK_OK(ingot_scheduler_close(scheduler));
  CHECK_OK(ingot_session_close(session));
}

static void open_and_close_games(void* user) {
  (void)user;
  IngotEnvironment* games = NULL;
  CHECK_OK(ingot_environment_open("connect_four", 4, 1, &games));
  CHECK_OK(ingot_environment_close(games));
}

static void use_a_study(void* user) {
  (void)user;
  IngotStudy* study = NULL;
  IngotTrial* trial = NULL;
  CHECK_OK(ingot_study_open("rate: {low: 1e-5, high: 1e-1, log: true}", NULL, &study));
  CHECK_OK(ingot_study_ask(study, &trial));
  CHECK_OK(ingot_trial_complete(trial, 1));
  CHECK_OK(ingot_trial_close(trial));
  CHECK_OK(ingot_study_close(study));
}

static void games_and_studies_leave_no_memory_behind(void) {
  leaves_nothing_behind(rounds(1000), open_and_close_games, NULL);
  leaves_nothing_behind(rounds(1000), use_a_study, NULL);
}

const TestCase leak_tests[] = {
    {"leaks: a hundred thousand calls on tensors", a_hundred_thousand_tensor_calls_leave_no_memory_behind},
    {"leaks: texts, callbacks and constraints", sessions_leave_no_memory_behind},
    {"leaks: requests that end or are cancelled", requests_leave_no_memory_behind},
    {"leaks: games and studies", games_and_studies_leave_no_memory_behind},
    {NULL, NULL}};
