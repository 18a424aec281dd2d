#pragma once

#include "check.h"

extern const TestCase device_tests[], tensor_tests[], ops_tests[];

static const TestCase* const suites[] = {device_tests, tensor_tests, ops_tests, NULL};
