#define _POSIX_C_SOURCE 200809L
#include "fixture.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { kThreads = 4, kEach = 3, kTokens = 12 };

static IngotGenerateOptions greedy(int64_t max_tokens) {
  IngotGenerateOptions options;
  CHECK_OK(ingot_generate_options(NULL, &options, sizeof options));
  options.temperature = 0;
  options.max_tokens = max_tokens;
  options.ignore_end_tokens = 1;
  return options;
}

static char* text_of(IngotGeneration* generation) {
  IngotGenerationInfo info = {0};
  CHECK_OK(ingot_generation_info(generation, &info, sizeof info));
  char* text = strdup(info.text != NULL ? info.text : "");
  CHECK_OK(ingot_generation_close(generation));
  return text;
}

static const char* prompt_of(int i) {
  static const char* const prompts[] = {"a", "hello", "The end", "x y z", "Why?"};
  return prompts[i % 5];
}

typedef struct {
  IngotScheduler* scheduler;
  char* const* expected;
  int first;
} Client;

static void* ask_and_compare(void* user) {
  const Client* client = user;
  IngotRequest* requests[kEach];
  const IngotGenerateOptions options = greedy(kTokens);
  for (int i = 0; i < kEach; ++i)
    CHECK_OK(ingot_scheduler_submit(client->scheduler, prompt_of(client->first + i), &options, NULL,
                                    &requests[i]));
  for (int i = 0; i < kEach; ++i) {
    IngotGeneration* generation = NULL;
    CHECK_OK(ingot_request_wait(requests[i], -1, &generation));
    char* text = text_of(generation);
    CHECK(strcmp(text, client->expected[(client->first + i) % 5]) == 0);
    free(text);
    CHECK_OK(ingot_request_close(requests[i]));
  }
  return NULL;
}

static void requests_from_many_threads_get_the_text_that_they_get_alone(void) {
  IngotSession* session = tiny_session();
  const IngotGenerateOptions options = greedy(kTokens);
  char* expected[5];
  for (int i = 0; i < 5; ++i) {
    IngotGeneration* alone = NULL;
    CHECK_OK(ingot_session_generate(session, prompt_of(i), &options, NULL, NULL, &alone));
    expected[i] = text_of(alone);
  }
  IngotScheduler* scheduler = NULL;
  CHECK_OK(ingot_scheduler_open(session, NULL, &scheduler));
  pthread_t threads[kThreads];
  Client clients[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    clients[i] = (Client){scheduler, expected, i};
    pthread_create(&threads[i], NULL, ask_and_compare, &clients[i]);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  IngotSchedulerStats stats;
  CHECK_OK(ingot_scheduler_stats(scheduler, &stats, sizeof stats));
  CHECK(stats.running == 0 && stats.waiting == 0);
  CHECK_OK(ingot_scheduler_close(scheduler));
  CHECK_OK(ingot_session_close(session));
  for (int i = 0; i < 5; ++i) free(expected[i]);
}

static void polling_gives_the_text_in_pieces(void) {
  IngotSession* session = tiny_session();
  IngotScheduler* scheduler = NULL;
  IngotRequest* request = NULL;
  CHECK_OK(ingot_scheduler_open(session, NULL, &scheduler));
  const IngotGenerateOptions options = greedy(kTokens);
  CHECK_OK(ingot_scheduler_submit(scheduler, "poll", &options, NULL, &request));
  char all[256] = "";
  int32_t done = 0;
  while (!done) {
    char* text = NULL;
    size_t bytes = 0;
    CHECK_OK(ingot_request_poll(request, &text, &bytes, &done));
    CHECK(strlen(text) == bytes);
    strncat(all, text, sizeof all - strlen(all) - 1);
    ingot_free(text);
    const struct timespec pause = {0, 200000};
    nanosleep(&pause, NULL);
  }
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_request_wait(request, 0, &generation));
  char* whole = text_of(generation);
  CHECK(strcmp(whole, all) == 0 && strlen(whole) > 0);
  free(whole);
  CHECK_OK(ingot_request_close(request));
  CHECK_OK(ingot_scheduler_close(scheduler));
  CHECK_OK(ingot_session_close(session));
}

typedef struct {
  IngotScheduler* scheduler;
  atomic_int pieces, ends;
  int stop_after;
  char reason[32];
} Listener;

static int32_t on_text(const char* text, size_t bytes, void* user) {
  Listener* listener = user;
  CHECK(strlen(text) == bytes && bytes > 0);
  /* Waiting for oneself is refused. */
  CHECK_FAILS(INGOT_BUSY, "callback", ingot_scheduler_close(listener->scheduler));
  return ++listener->pieces == listener->stop_after;
}

static void on_end(const char* reason, void* user) {
  Listener* listener = user;
  snprintf(listener->reason, sizeof listener->reason, "%s", reason);
  ++listener->ends;
}

static void callbacks_stream_the_text_and_can_stop_it(void) {
  IngotSession* session = tiny_session();
  Listener listener = {.stop_after = 3};
  IngotRequest* request = NULL;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_scheduler_open(session, NULL, &listener.scheduler));
  const IngotRequestCallbacks callbacks = {on_text, on_end, &listener};
  const IngotGenerateOptions options = greedy(40);
  CHECK_OK(ingot_scheduler_submit(listener.scheduler, "stop me", &options, &callbacks, &request));
  CHECK_OK(ingot_request_wait(request, -1, &generation));
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_close(request));
  CHECK_OK(ingot_scheduler_close(listener.scheduler)); /* and with it the callbacks have ended */
  CHECK(listener.pieces >= 3 && listener.ends == 1 && strcmp(listener.reason, "cancelled") == 0);
  CHECK_OK(ingot_session_close(session));
}

static int32_t wait_in_a_processor(float* logits, size_t vocab, const int32_t* ids, size_t count,
                                   void* user) {
  (void)logits;
  (void)vocab;
  (void)ids;
  (void)count;
  Listener* listener = user;
  CHECK_FAILS(INGOT_BUSY, "callback", ingot_scheduler_close(listener->scheduler));
  ++listener->pieces;
  return 0;
}

static void a_logits_processor_may_not_wait_for_itself(void) {
  IngotSession* session = tiny_session();
  Listener listener = {0};
  IngotRequest* request = NULL;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_scheduler_open(session, NULL, &listener.scheduler));
  IngotGenerateOptions options = greedy(3);
  options.logits_processor = wait_in_a_processor;
  options.logits_processor_user = &listener;
  CHECK_OK(ingot_scheduler_submit(listener.scheduler, "wait", &options, NULL, &request));
  CHECK_OK(ingot_request_wait(request, -1, &generation));
  CHECK(listener.pieces > 0);
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_close(request));
  CHECK_OK(ingot_scheduler_close(listener.scheduler));
  CHECK_OK(ingot_session_close(session));
}

typedef struct {
  IngotScheduler* other;
  atomic_int answers;
} Asker;

static int32_t ask_another(float* logits, size_t vocab, const int32_t* ids, size_t count, void* user) {
  (void)logits;
  (void)vocab;
  (void)ids;
  (void)count;
  Asker* asker = user;
  const IngotGenerateOptions options = greedy(2);
  IngotRequest* request = NULL;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_scheduler_submit(asker->other, "ask", &options, NULL, &request));
  CHECK_OK(ingot_request_wait(request, -1, &generation));
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_close(request));
  ++asker->answers;
  return 0;
}

static void a_logits_processor_may_wait_for_another_scheduler(void) {
  IngotSession *session = tiny_session(), *other = tiny_session();
  IngotScheduler* scheduler = NULL;
  Asker asker = {0};
  IngotRequest* request = NULL;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_scheduler_open(session, NULL, &scheduler));
  CHECK_OK(ingot_scheduler_open(other, NULL, &asker.other));
  IngotGenerateOptions options = greedy(3);
  options.logits_processor = ask_another;
  options.logits_processor_user = &asker;
  CHECK_OK(ingot_scheduler_submit(scheduler, "wait", &options, NULL, &request));
  CHECK_OK(ingot_request_wait(request, -1, &generation));
  CHECK(asker.answers == 3);
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_close(request));
  CHECK_OK(ingot_scheduler_close(scheduler));
  CHECK_OK(ingot_scheduler_close(asker.other));
  CHECK_OK(ingot_session_close(session));
  CHECK_OK(ingot_session_close(other));
}

static void cancel_timeouts_and_closing_end_requests(void) {
  IngotSession* session = tiny_session();
  IngotScheduler* scheduler = NULL;
  IngotRequest *first = NULL, *second = NULL, *third = NULL;
  IngotGeneration* generation = NULL;
  CHECK_OK(ingot_scheduler_open(session, NULL, &scheduler));
  CHECK_FAILS(INGOT_BUSY, "session", ingot_session_generate(session, "a", NULL, NULL, NULL, NULL));
  const IngotGenerateOptions options = greedy(55);
  CHECK_OK(ingot_scheduler_submit(scheduler, "one", &options, NULL, &first));
  CHECK_OK(ingot_request_cancel(first));
  CHECK_OK(ingot_request_wait(first, 60000, &generation));
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_cancel(first)); /* it has ended */
  CHECK_OK(ingot_scheduler_submit(scheduler, "two", &options, NULL, &second));
  CHECK_OK(ingot_scheduler_submit(scheduler, "three", &options, NULL, &third));
  CHECK_OK(ingot_request_close(second)); /* cancels it */
  CHECK_OK(ingot_request_wait(third, 0, &generation));
  if (generation != NULL) CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_scheduler_close(scheduler));
  CHECK_OK(ingot_request_wait(third, -1, &generation)); /* closing ended it */
  CHECK_OK(ingot_generation_close(generation));
  CHECK_OK(ingot_request_cancel(third));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "scheduler", ingot_scheduler_submit(scheduler, "a", NULL, NULL, &second));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "request", ingot_request_cancel(second));
  CHECK_OK(ingot_request_close(first));
  CHECK_OK(ingot_request_close(third));
  CHECK_OK(ingot_session_generate(session, "a", NULL, NULL, NULL, NULL)); /* the session is free again */
  CHECK_OK(ingot_session_close(session));
}

static void what_cannot_be_submitted_is_a_status(void) {
  IngotSession* session = tiny_session();
  IngotScheduler* scheduler = NULL;
  IngotRequest* request = NULL;
  IngotSchedulerOptions small;
  CHECK_OK(ingot_scheduler_options(&small, sizeof small));
  small.max_waiting = 0;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "max_waiting", ingot_scheduler_open(session, &small, &scheduler));
  CHECK_OK(ingot_scheduler_open(session, NULL, &scheduler));
  IngotGenerateOptions options = greedy(5);
  options.top_p = 7;
  CHECK_FAILS(INGOT_INVALID_CONFIG, "top_p",
              ingot_scheduler_submit(scheduler, "a", &options, NULL, &request));
  static char lengthy[300];
  memset(lengthy, 'a', sizeof lengthy - 1);
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "64",
              ingot_scheduler_submit(scheduler, lengthy, NULL, NULL, &request));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "prompt is NULL",
              ingot_scheduler_submit(scheduler, NULL, NULL, NULL, &request));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "messages",
              ingot_scheduler_submit_chat(scheduler, "x", NULL, NULL, NULL, &request));
  IngotScheduler* other = NULL;
  CHECK_FAILS(INGOT_BUSY, "session", ingot_scheduler_open(session, NULL, &other));
  CHECK(request == NULL);
  CHECK_OK(ingot_scheduler_close(scheduler));
  CHECK_OK(ingot_session_close(session));
}

const TestCase scheduler_tests[] = {
    {"scheduler: many threads get the text that they get alone",
     requests_from_many_threads_get_the_text_that_they_get_alone},
    {"scheduler: polling gives the text in pieces", polling_gives_the_text_in_pieces},
    {"scheduler: callbacks stream the text and can stop it", callbacks_stream_the_text_and_can_stop_it},
    {"scheduler: a logits processor may not wait for itself", a_logits_processor_may_not_wait_for_itself},
    {"scheduler: a logits processor may wait for another", a_logits_processor_may_wait_for_another_scheduler},
    {"scheduler: cancelling, timeouts and closing end requests", cancel_timeouts_and_closing_end_requests},
    {"scheduler: what cannot be submitted is a status", what_cannot_be_submitted_is_a_status},
    {NULL, NULL}};
