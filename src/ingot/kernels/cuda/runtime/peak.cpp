#include "ingot/kernels/cuda/runtime/peak.h"

#include <algorithm>
#include <array>
#include <string>

namespace ingot::kernels::cuda {
namespace {

// TFLOP/s. Names are whole words of what the driver says; one that begins with another comes before it.
struct Gpu {
  const char* name;
  double half, f32;
};
constexpr std::array kGpus{Gpu{"B200", 2250, 75},
                           Gpu{"H200 NVL", 835, 60},
                           Gpu{"H200", 989.4, 66.9},
                           Gpu{"GH200", 989.4, 66.9},
                           Gpu{"H100 PCIe", 756, 51.2},
                           Gpu{"H100 NVL", 835, 60},
                           Gpu{"H100", 989.4, 66.9},
                           Gpu{"A100", 312, 19.5},
                           Gpu{"A40", 149.7, 37.4},
                           Gpu{"A10", 125, 31.2},
                           Gpu{"L40S", 362, 91.6},
                           Gpu{"L4", 121, 30.3},
                           Gpu{"GeForce RTX 4090", 165.2, 82.6},
                           Gpu{"GeForce RTX 3090", 71, 35.6}};

}  // namespace

double dense_peak(std::string_view device_name, DType dtype) {
  if (dtype != DType::f32 && !is_half_precision(dtype)) return 0;
  std::string words = " " + std::string(device_name) + " ";  // "NVIDIA A100-SXM4-80GB"
  std::ranges::replace(words, '-', ' ');
  for (const Gpu& gpu : kGpus) {
    if (words.find(" " + std::string(gpu.name) + " ") != std::string::npos)
      return (dtype == DType::f32 ? gpu.f32 : gpu.half) * 1e12;
  }
  return 0;
}

}  // namespace ingot::kernels::cuda
