#include "ingot/plugin/plugin.h"
#include "ingot/train/reporter.h"

INGOT_PLUGIN(registrar) {
  registrar.add_reporter("jsonl", [] { return std::shared_ptr<ingot::Reporter>(); });
}
