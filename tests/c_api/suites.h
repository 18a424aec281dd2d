#pragma once

#include "check.h"

extern const TestCase device_tests[], tensor_tests[], ops_tests[], weights_tests[], model_tests[];

static const TestCase* const suites[] = {device_tests,  tensor_tests, ops_tests,
                                         weights_tests, model_tests,  NULL};
