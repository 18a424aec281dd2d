#pragma once

#include <cstdint>
#include <memory>

#include "ingot/models/adapter/adapter_bank.h"

namespace ingot::benchmark {

/// Fresh LoRA adapters on all linear layers, which change nothing and take as long as others. Texts choose
/// them as "0", "1", ... The model has to outlive the bank.
std::shared_ptr<AdapterBank> fresh_adapters(LanguageModel& model, std::int64_t count, std::int64_t rank);

}  // namespace ingot::benchmark
