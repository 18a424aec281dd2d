#pragma once

#include <span>
#include <string>
#include <vector>

#include "ingot/core/dtype.h"

namespace ingot {

/// What a plan knows of a device. Rates are dense, of data sheets, in FLOP/s and bytes/s.
struct PlannedDevice {
  std::string name;
  double f32 = 0, half = 0, fp8 = 0;  ///< FLOP/s of matmuls; fp8 0: it has none
  /// The share of the peak that large matmuls hold under the power limit.
  double sustained = 1;
  double memory = 0;     ///< bytes
  double bandwidth = 0;  ///< bytes/s of that memory
  double link = 0;       ///< bytes/s each way to the other GPUs of a node: NVLink, or PCIe through the host
  double host_link = 0;  ///< bytes/s each way to the host's memory
  bool host = false;     ///< processors: the ranks of a node share their rates and memory

  double peak(DType dtype) const { return dtype == DType::f32 ? f32 : half; }
};

/// The GPUs that plans know by name.
///
/// Sources: NVIDIA's data sheets (dense rates, without sparsity; f32 is that of CUDA cores). `sustained`: 230
/// of 362 TFLOP/s on the L40S are measured by LLMQ's author; A100, H100 and RTX 4090 are fitted to the
/// published runs of tests/train/language/published_rows.h; an H200 has the H100's cores. The rest (B200,
/// RTX 5090, RTX PRO 6000) are assumed, and to be set by a file once they are measured.
std::span<const PlannedDevice> known_gpus();

/// InvalidConfig with the nearest name, and all.
const PlannedDevice& known_gpu(const std::string& name);

/// Describes a device by a YAML file: keys are those of PlannedDevice, in TFLOP/s and GB/s (`half: 989`,
/// `bandwidth: 3350`), memory as `80GB`; `like: h100` takes what is not given from there. InvalidConfig names
/// the key.
PlannedDevice read_planned_device(const std::string& path);

/// "400Gb/s", "50 GB/s", "10Gbps": bytes/s. InvalidConfig naming `key` otherwise.
double parse_link_rate(const std::string& text, const std::string& key);

}  // namespace ingot
