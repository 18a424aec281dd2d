#pragma once

#include "ingot/c_api/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Runs a session's model for requests from any thread, batched continuously, on a thread of its own. While
/// it is open the session's own calls that generate answer INGOT_BUSY.
typedef struct IngotScheduler IngotScheduler;
/// One request: its text as it comes, and its end.
typedef struct IngotRequest IngotRequest;

/// Fill with ingot_scheduler_options().
typedef struct IngotSchedulerOptions {
  size_t size;          ///< of this struct, as the caller knows it
  int64_t max_waiting;  ///< requests that wait for their first step at most (256); more are INGOT_QUEUE_FULL
} IngotSchedulerOptions;
INGOT_API IngotStatus ingot_scheduler_options(IngotSchedulerOptions* options, size_t size);

/// options NULL: the defaults.
INGOT_API IngotStatus ingot_scheduler_open(IngotSession* session, const IngotSchedulerOptions* options,
                                           IngotScheduler** out);
/// Cancels what is left, and waits for its callbacks. INGOT_BUSY from its callbacks. NULL is allowed.
INGOT_API IngotStatus ingot_scheduler_close(IngotScheduler* scheduler);

/// Called once, behind the last text. A request that failed has `reason` "failed".
typedef void (*IngotOnEnd)(const char* reason, void* user);

/// Callbacks of a request, each of which may be NULL. The scheduler's thread calls them, and all requests
/// wait meanwhile. They may submit and cancel, but not wait for the same scheduler.
typedef struct IngotRequestCallbacks {
  IngotOnText on_text;  ///< anything but 0 cancels the request
  IngotOnEnd on_end;
  void* user;
} IngotRequestCallbacks;

/// Submits a prompt. options, callbacks: may be NULL. *out is to be closed with ingot_request_close().
/// Errors: INGOT_INVALID_CONFIG for an option, INGOT_DIMENSION_MISMATCH for a prompt that is too long,
/// INGOT_QUEUE_FULL.
INGOT_API IngotStatus ingot_scheduler_submit(IngotScheduler* scheduler, const char* prompt,
                                             const IngotGenerateOptions* options,
                                             const IngotRequestCallbacks* callbacks, IngotRequest** out);
/// The same for ids [count], taken as they are.
INGOT_API IngotStatus ingot_scheduler_submit_ids(IngotScheduler* scheduler, const int32_t* ids, size_t count,
                                                 const IngotGenerateOptions* options,
                                                 const IngotRequestCallbacks* callbacks, IngotRequest** out);
/// The same for the messages of a chat, as ingot_session_chat() takes them.
INGOT_API IngotStatus ingot_scheduler_submit_chat(IngotScheduler* scheduler, const char* messages,
                                                  const char* tools, const IngotGenerateOptions* options,
                                                  const IngotRequestCallbacks* callbacks, IngotRequest** out);

/// The text that came since the last poll, which may be empty, without waiting. *text is to be freed with
/// ingot_free(); *bytes (may be NULL) is its length, *done is 1 when nothing more will come.
INGOT_API IngotStatus ingot_request_poll(IngotRequest* request, char** text, size_t* bytes, int32_t* done);
/// Waits until the request has ended, `timeout_ms` at most (negative: as long as it takes). *out, to be
/// closed with ingot_generation_close(), is NULL where the time was over. What made a request fail is the
/// status.
INGOT_API IngotStatus ingot_request_wait(IngotRequest* request, int64_t timeout_ms, IngotGeneration** out);
/// Ends a request before the next step: its reason is "cancelled". Nothing happens where it has ended.
INGOT_API IngotStatus ingot_request_cancel(IngotRequest* request);
/// Closes the handle, and cancels what is not finished. NULL is allowed.
INGOT_API IngotStatus ingot_request_close(IngotRequest* request);

/// Of the time after the last step.
typedef struct IngotSchedulerStats {
  int64_t running, waiting;  ///< requests
  int64_t preemptions;       ///< requests that gave their memory up for a while, so far
} IngotSchedulerStats;
INGOT_API IngotStatus ingot_scheduler_stats(const IngotScheduler* scheduler, IngotSchedulerStats* stats,
                                            size_t size);

#ifdef __cplusplus
}
#endif
