#pragma once

#include <memory>
#include <optional>
#include <string>

namespace ingot::benchmark {

/// What a card says of itself, by NVIDIA's management library (libnvidia-ml.so.1, which comes with the
/// driver). Without that library, or a card at the address, there are no readings.
class CardSensors {
 public:
  /// BackendCapabilities::pci_address: the library numbers cards in another order than CUDA does, and also
  /// those that CUDA_VISIBLE_DEVICES hides.
  explicit CardSensors(const std::string& pci_address);

  struct Reading {
    double sm_mhz = 0;  ///< clock of the multiprocessors now
    double watts = 0;   ///< drawn; since Ampere, but for the A100, the driver gives the mean of a second
  };
  std::optional<Reading> read() const;
  /// What the card may draw.
  std::optional<double> limit_watts() const;

 private:
  void* card_ = nullptr;  // the library's handle
};

}  // namespace ingot::benchmark
