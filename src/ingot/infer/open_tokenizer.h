#pragma once

// What opens a model's tokenizer stands in the models layer; infer's users may name it here.
#include "ingot/models/open_tokenizer.h"  // IWYU pragma: export
