#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ingot/data/records.h"

namespace ingot::data {

/// A JSON object whose members keep their order, seen while it is there. Of its own type, so that headers
/// that only name it do without the JSON library's.
struct Record {
  Record(const nlohmann::ordered_json& object)  // NOLINT(google-explicit-constructor): it stands for it
      : json(object) {}
  const nlohmann::ordered_json& json;
};

}  // namespace ingot::data
