#pragma once

#include "ingot/c_api/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A search for the values of parameters that make an objective best: ask for a trial, try it, report.
/// Several processes may share a study's file. Any thread; calls on one study wait for each other.
typedef struct IngotStudy IngotStudy;
/// One trial of a study. Any thread, one at a time.
typedef struct IngotTrial IngotTrial;

/// Fill with ingot_study_options(). NULL strings are the defaults.
typedef struct IngotStudyOptions {
  size_t size;            ///< of this struct, as the caller knows it
  const char* direction;  ///< "minimize" (the default) or "maximize"
  const char* sampler;    ///< "tpe" (the default), "random" or, of a given space, "grid"
  const char* pruner;     ///< "none" (the default), "median" or "asha"
  uint64_t seed;
  int64_t trials;         ///< how many the study shall have (100); a grid may end before
  const char* path;       ///< the SQLite file that processes share; NULL: in memory
  const char* objective;  ///< what is tried, in words; a file about another objective is refused
  double lease_seconds;   ///< a worker that was not heard of for so long has lost its trial (60)
  const char*
      objectives;  ///< several, instead of direction, as YAML or JSON: "{loss: minimize, size: minimize}"
} IngotStudyOptions;
INGOT_API IngotStatus ingot_study_options(IngotStudyOptions* options, size_t size);

/// space: YAML or JSON, as `space` of a study's file: "learning_rate: {low: 1e-5, high: 1e-1, log: true}\n"
/// "layers: {low: 1, high: 4, type: int}\n" (docs/tuning.md). NULL: trials say what they search as they ask
/// for it (ingot_trial_suggest()), which no "grid" can be laid over. options may be NULL.
INGOT_API IngotStatus ingot_study_open(const char* space, const IngotStudyOptions* options, IngotStudy** out);
/// Trials that run go back, as if they had not been begun. NULL is allowed.
INGOT_API IngotStatus ingot_study_close(IngotStudy* study);

/// Begins the next trial. *out is NULL where all are begun.
INGOT_API IngotStatus ingot_study_ask(IngotStudy* study, IngotTrial** out);
/// *complete is 1 when the study has as many finished trials as it shall have.
INGOT_API IngotStatus ingot_study_is_complete(IngotStudy* study, int32_t* complete);
/// The best trial so far. *params, its parameters as a JSON object, is to be freed with ingot_free(), and
/// NULL where no trial is complete. number and value may be NULL.
INGOT_API IngotStatus ingot_study_best(IngotStudy* study, char** params, int64_t* number, double* value);

/// Of several objectives, the trials that no other is as good as in all and better than in one; of one, the
/// best alone. *trials, a JSON list of objects with number, params and values (by objective), is to be freed
/// with ingot_free().
INGOT_API IngotStatus ingot_study_front(IngotStudy* study, char** trials);

/// Its number in the study, from 0.
INGOT_API IngotStatus ingot_trial_number(const IngotTrial* trial, int64_t* number);
/// Its parameters as a JSON object; to be freed with ingot_free().
INGOT_API IngotStatus ingot_trial_params(const IngotTrial* trial, char** params);
/// The value of a number, or the index of a choice; NaN where the parameter does not exist in this trial,
/// which of a study without a space any name may be.
INGOT_API IngotStatus ingot_trial_value(const IngotTrial* trial, const char* name, double* value);
/// Of a study that was opened without a space: the trial's value of a parameter, with conditions and loops of
/// the caller's own. parameter: a JSON object, {"low": 1e-5, "high": 0.1, "log": true}, with "type": "int"
/// and "step" for whole numbers, or {"choices": ["adam", "sgd"]}. *value is the number, or the choice's
/// index. Asked again, it is the same, unless the range given then leaves it out: it is chosen anew. Errors:
/// INGOT_INVALID_CONFIG where the study has a space, or knows the name as another kind of parameter;
/// INGOT_TRIAL_LOST where another worker has the trial by now.
INGOT_API IngotStatus ingot_trial_suggest(IngotTrial* trial, const char* name, const char* parameter,
                                          double* value);
/// An intermediate value at a step from 0 on, that grows. *pruned is 1 where the pruner has ended the trial.
INGOT_API IngotStatus ingot_trial_report(IngotTrial* trial, int64_t step, double value, int32_t* pruned);
/// The final value. NaN makes it a failed trial. INGOT_TRIAL_LOST where another worker has it by now.
INGOT_API IngotStatus ingot_trial_complete(IngotTrial* trial, double value);
/// The final values of all objectives, in the order of IngotStudyOptions.objectives; one NaN makes it a
/// failed trial. INGOT_INVALID_CONFIG where their number differs.
INGOT_API IngotStatus ingot_trial_complete_all(IngotTrial* trial, const double* values, size_t count);
/// Ends a trial that is going nowhere, for the caller's own reason; why: for people, NULL is allowed.
INGOT_API IngotStatus ingot_trial_prune(IngotTrial* trial, const char* why);
/// The trial failed; why: for people, NULL is allowed.
INGOT_API IngotStatus ingot_trial_fail(IngotTrial* trial, const char* why);
/// Closes the handle. A trial that runs still counts as failed. NULL is allowed.
INGOT_API IngotStatus ingot_trial_close(IngotTrial* trial);

#ifdef __cplusplus
}
#endif
