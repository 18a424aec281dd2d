#pragma once

#include "check.h"

extern const TestCase device_tests[];

static const TestCase* const suites[] = {device_tests, NULL};
