#pragma once

namespace ingot {

/// While it lives, quantized matrices multiply with their values on this thread, as they do where gradients
/// are recorded: the only way for activations of 16 bits, and the arithmetic that a run trains with.
class WithValues {
 public:
  explicit WithValues(bool on = true);
  ~WithValues();
  WithValues(const WithValues&) = delete;
  WithValues& operator=(const WithValues&) = delete;

 private:
  bool previous_;
};

}  // namespace ingot
