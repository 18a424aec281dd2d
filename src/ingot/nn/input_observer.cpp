#include "ingot/nn/input_observer.h"

#include <utility>

#include "ingot/nn/linear_input.h"

namespace ingot {
namespace {
thread_local InputObserver* input_observer = nullptr;
}

InputObserver::InputObserver(See see) : see_(std::move(see)), outer_(input_observer) {
  input_observer = this;
}
InputObserver::~InputObserver() { input_observer = outer_; }

bool InputObserver::is_on() { return input_observer != nullptr; }

void InputObserver::tell(std::string_view name, const LinearInput& x) {
  if (is_on()) input_observer->see_(name, x.tensor(), {});
}
void InputObserver::tell(std::string_view name, const Tensor& x, const Tensor& offsets) {
  if (is_on()) input_observer->see_(name, x, offsets);
}

}  // namespace ingot
