#pragma once

#include "check.h"

/* clang-format off: one a line */
#define SUITES(SUITE)      \
  SUITE(device_tests)      \
  SUITE(tensor_tests)      \
  SUITE(ops_tests)         \
  SUITE(weights_tests)     \
  SUITE(model_tests)       \
  SUITE(scheduler_tests)   \
  SUITE(export_tests)      \
  SUITE(train_tests)       \
  SUITE(forecast_tests)    \
  SUITE(tune_tests)        \
  SUITE(environment_tests) \
  SUITE(plugin_tests)      \
  SUITE(leak_tests)        \
  SUITE(world_tests)       \
  SUITE(zero_call_tests)
/* clang-format on */

#define DECLARE(name) extern const TestCase name[];
#define LIST(name) name,
SUITES(DECLARE)
static const TestCase* const suites[] = {SUITES(LIST) NULL};
