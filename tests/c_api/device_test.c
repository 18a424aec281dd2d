#include "check.h"
#include <pthread.h>

static void the_version_is_three_numbers(void) {
  int major, minor, patch;
  CHECK(sscanf(ingot_version(), "%d.%d.%d", &major, &minor, &patch) == 3);
}

static void initialize_takes_a_backend_and_names_the_ones_there_are(void) {
  CHECK_OK(ingot_initialize(NULL));
  IngotInitializeOptions options;
  CHECK_OK(ingot_initialize_options(&options, sizeof options));
  CHECK(options.size == sizeof options && options.backend == NULL);
  options.backend = "abacus";
  CHECK_FAILS(INGOT_INVALID_CONFIG, "abacus", ingot_initialize(&options));
  options.backend = NULL;
  options.threads = -1;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "threads", ingot_initialize(&options));
  options.size = 0;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "size", ingot_initialize(&options));
}

static void the_log_has_a_level_and_a_file(void) {
  CHECK_OK(ingot_set_log("off", NULL));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "loud", ingot_set_log("loud", NULL));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "level is NULL", ingot_set_log(NULL, NULL));
  CHECK(ingot_set_log("warn", source_file("README.md/a.log")) != INGOT_OK); /* below a file */
  CHECK_OK(ingot_set_log("warn", NULL));
}

static void options_of_an_older_header_are_read_as_far_as_they_go(void) {
  IngotInitializeOptions options;
  memset(&options, 0x55, sizeof options);
  const size_t older = offsetof(IngotInitializeOptions, backend);
  CHECK_OK(ingot_initialize_options(&options, older));
  CHECK(options.size == older);
  CHECK(((const unsigned char*)&options)[older] == 0x55); /* what is behind them is not touched */
  CHECK_OK(ingot_initialize(&options));
}

static void the_first_device_is_the_cpu(void) {
  int32_t count = 0;
  CHECK_OK(ingot_device_count(&count));
  CHECK(count >= 1);
  IngotDeviceInfo info;
  CHECK_OK(ingot_device_info(0, &info, sizeof info));
  CHECK(strcmp(info.device, "cpu") == 0 && info.compute_units >= 1 && info.works_async == 0);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "index is -1", ingot_device_info(-1, &info, sizeof info));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "devices", ingot_device_info(count, &info, sizeof info));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "info is NULL", ingot_device_info(0, NULL, sizeof info));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "count is NULL", ingot_device_count(NULL));
}

static void memory_counts_bytes(void) {
  IngotMemoryInfo memory;
  CHECK_OK(ingot_device_memory("cpu", &memory, sizeof memory));
  CHECK(memory.total > 0 && memory.free <= memory.total);
  CHECK_OK(ingot_device_reset_peak(NULL));
  CHECK_OK(ingot_device_trim("cpu"));
  CHECK_FAILS(INGOT_DEVICE_NOT_AVAILABLE, "cuda:7", ingot_device_memory("cuda:7", &memory, sizeof memory));
  CHECK(strcmp(ingot_last_error()->device, "cuda:7") == 0);
  CHECK_FAILS(INGOT_INVALID_CONFIG, "abacus", ingot_device_memory("abacus", &memory, sizeof memory));
}

static void streams_and_events_work_on_the_cpu(void) {
  IngotStream* stream = NULL;
  IngotEvent* event = NULL;
  CHECK_OK(ingot_stream_create("cpu", &stream));
  CHECK_OK(ingot_event_create("cpu", &event));
  CHECK_OK(ingot_event_record(event, stream));
  CHECK_OK(ingot_stream_wait(stream, event));
  CHECK_OK(ingot_event_synchronize(event));
  CHECK_OK(ingot_stream_synchronize(stream));
  CHECK_OK(ingot_event_close(event));
  CHECK_OK(ingot_stream_close(stream));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "native", ingot_stream_wrap("cpu", &stream, &stream));
  CHECK(stream == NULL);
}

static void a_handle_that_is_closed_wrong_or_made_up_is_a_status(void) {
  IngotStream* stream = NULL;
  IngotEvent* event = NULL;
  CHECK_OK(ingot_stream_create("cpu", &stream));
  CHECK_OK(ingot_event_create("cpu", &event));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "not one of a stream", ingot_stream_synchronize((IngotStream*)event));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "not one of a stream", ingot_stream_close((IngotStream*)event));
  CHECK_OK(ingot_stream_close(stream));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "closed", ingot_stream_synchronize(stream));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "closed", ingot_stream_close(stream));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "NULL", ingot_stream_synchronize(NULL));
  int mine = 0;
  CHECK_FAILS(INGOT_INVALID_HANDLE, "never given out", ingot_stream_synchronize((IngotStream*)&mine));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "", ingot_stream_synchronize((IngotStream*)(uintptr_t)1));
  CHECK_OK(ingot_stream_close(NULL));
  CHECK_OK(ingot_event_close(event));
}

static void* fail_elsewhere(void* nothing) {
  (void)nothing;
  CHECK(ingot_last_error()->status == INGOT_OK); /* not the other thread's */
  CHECK_FAILS(INGOT_DEVICE_NOT_AVAILABLE, "cuda:9", ingot_device_trim("cuda:9"));
  return NULL;
}

static void the_last_error_is_of_this_thread_and_says_which_call(void) {
  CHECK_FAILS(INGOT_INVALID_CONFIG, "abacus", ingot_device_trim("abacus"));
  pthread_t other;
  pthread_create(&other, NULL, fail_elsewhere, NULL);
  pthread_join(other, NULL);
  const IngotError* error = ingot_last_error();
  CHECK(error->status == INGOT_INVALID_CONFIG && strcmp(error->kind, "invalid_config") == 0);
  CHECK(strcmp(error->call, "ingot_device_trim") == 0);
  CHECK(strcmp(ingot_status_name(INGOT_INVALID_CONFIG), "invalid_config") == 0);
  CHECK(strcmp(ingot_status_name(-5), "unknown") == 0);
}

const TestCase device_tests[] = {{"version: three numbers", the_version_is_three_numbers},
                                 {"initialize: takes a backend and names the ones there are",
                                  initialize_takes_a_backend_and_names_the_ones_there_are},
                                 {"log: has a level and a file", the_log_has_a_level_and_a_file},
                                 {"options: of an older header are read as far as they go",
                                  options_of_an_older_header_are_read_as_far_as_they_go},
                                 {"devices: the first is the CPU", the_first_device_is_the_cpu},
                                 {"devices: memory counts bytes", memory_counts_bytes},
                                 {"streams: with events, on the CPU", streams_and_events_work_on_the_cpu},
                                 {"handles: closed, wrong or made up ones are a status",
                                  a_handle_that_is_closed_wrong_or_made_up_is_a_status},
                                 {"errors: the last one is of this thread and says which call",
                                  the_last_error_is_of_this_thread_and_says_which_call},
                                 {NULL, NULL}};
