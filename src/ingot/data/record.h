#pragma once

#include <utility>

#include <nlohmann/json.hpp>

#include "ingot/data/records.h"

namespace ingot::data {

/// A record is a JSON object whose members keep their order. Of its own type, so that headers that only name
/// it do without the JSON library's.
struct Record : nlohmann::ordered_json {
  Record(nlohmann::ordered_json json)  // NOLINT(google-explicit-constructor): it is one
      : nlohmann::ordered_json(std::move(json)) {}
};

}  // namespace ingot::data
