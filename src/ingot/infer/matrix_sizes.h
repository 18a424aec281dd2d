#pragma once

#include "ingot/models/language/decoder.h"

namespace ingot::infer {

/// What the matrices that a pass of the model multiplies with take as they are kept, by a dry run of it.
/// Those of an embedding that is tied to the head count once; those of one that is not, not at all: a token
/// reads one row of it.
struct MatrixSizes {
  double bytes = 0, elements = 0;
  /// Those of the elements that only tokens pass whose logits are wanted: the head, and what follows the last
  /// attention.
  double head = 0;
  double int8 = 0;       ///< those, without these, that are multiplied by int8 dot products
  double int8_rows = 0;  ///< of those, with one scale for a whole row: no arithmetic between dot products
};
MatrixSizes matrix_sizes(LanguageModel& model);
/// What one token passes through: of experts, the chosen ones alone.
MatrixSizes active_matrix_sizes(LanguageModel& model);

}  // namespace ingot::infer
