#pragma once

/// Ingot's C API: everything that a C program, or any language with a foreign-function interface, needs.
///
/// Every call returns an IngotStatus; ingot_last_error() says what went wrong on this thread. No call throws,
/// and a wrong or closed handle is a status. Handles belong to whoever got them and are closed by their
/// `_close` function; what they stand on stays alive until then. Strings are UTF-8 and end with a zero byte;
/// those that go in are copied. Structs of options begin with their size, so that later versions can add
/// fields. Callbacks may not throw, and may make calls. A call is safe from any thread unless it says
/// otherwise; handles that take one thread at a time answer INGOT_BUSY to the second. docs/c-api.md has
/// examples.
#include "ingot/c_api/device.h"
#include "ingot/c_api/environment.h"
#include "ingot/c_api/error.h"
#include "ingot/c_api/export.h"
#include "ingot/c_api/forecast.h"
#include "ingot/c_api/model.h"
#include "ingot/c_api/ops.h"
#include "ingot/c_api/plugin.h"
#include "ingot/c_api/scheduler.h"
#include "ingot/c_api/tensor.h"
#include "ingot/c_api/train.h"
#include "ingot/c_api/tune.h"
#include "ingot/c_api/weights.h"
#include "ingot/c_api/world.h"
