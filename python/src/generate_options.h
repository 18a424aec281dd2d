#pragma once

#include "bindings.h"

#include "ingot/infer/session.h"

namespace ingot::python {

/// The options of LLM.generate() by their names, over what the model's files say. InvalidConfig names what is
/// not known or does not fit.
infer::TextOptions generate_options(const infer::Session& session, const nb::dict& given);

}  // namespace ingot::python
