#include "ingot/train/language/planning/gpu_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/base/units.h"

namespace ingot {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

struct CatalogueRow {
  const char* name;
  double f32, half, fp8;  // TFLOP/s
  double sustained;
  double memory, bandwidth, link, host_link;  // GB, GB/s
};

constexpr std::array kCatalogue{
    CatalogueRow{"h100", 67, 989.4, 1978.9, 0.70, 80, 3350, 450, 55},
    CatalogueRow{"h100-pcie", 51, 756, 1513, 0.70, 80, 2000, 55, 55},
    CatalogueRow{"h200", 67, 989.4, 1978.9, 0.70, 141, 4800, 450, 55},
    CatalogueRow{"a100-40gb", 19.5, 312, 0, 0.87, 40, 1555, 300, 25},
    CatalogueRow{"a100", 19.5, 312, 0, 0.87, 80, 2039, 300, 25},
    CatalogueRow{"b200", 80, 2250, 4500, 0.70, 180, 8000, 900, 55},
    CatalogueRow{"rtx4090", 82.6, 165.2, 330.3, 1.0, 24, 1008, 25, 25},
    CatalogueRow{"rtx5090", 104.8, 209.5, 419, 0.95, 32, 1792, 55, 55},
    CatalogueRow{"l40s", 91.6, 362, 733, 0.64, 48, 864, 25, 25},
    CatalogueRow{"rtxpro6000", 125, 503.8, 1007.6, 0.80, 96, 1792, 55, 55},
};

std::vector<PlannedDevice> make_catalogue() {
  std::vector<PlannedDevice> list;
  list.reserve(kCatalogue.size());
  for (const CatalogueRow& row : kCatalogue) {
    list.push_back({.name = row.name,
                    .f32 = row.f32 * kTera,
                    .half = row.half * kTera,
                    .fp8 = row.fp8 * kTera,
                    .sustained = row.sustained,
                    .memory = row.memory * kGiga,
                    .bandwidth = row.bandwidth * kGiga,
                    .link = row.link * kGiga,
                    .host_link = row.host_link * kGiga});
  }
  return list;
}

// "RTX 4090" and "4090" are the name, too.
std::string plain_gpu_name(const std::string& name) {
  std::string plain;
  for (const char c : name)
    if (c != ' ' && c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_number = plain == "4090" || plain == "5090";
  return is_number ? "rtx" + plain : plain;
}

}  // namespace

std::span<const PlannedDevice> known_gpus() {
  static const std::vector<PlannedDevice> list = make_catalogue();
  return list;
}

const PlannedDevice& known_gpu(const std::string& name) {
  const std::string plain = plain_gpu_name(name);
  std::vector<std::string> names;
  names.reserve(known_gpus().size());
  for (const PlannedDevice& gpu : known_gpus()) {
    if (gpu.name == plain) return gpu;
    names.push_back(gpu.name);
  }
  throw InvalidConfig("--gpu", fmt::format("'{}' is not known{}; known are {}, cpu; another is described by "
                                           "--hardware FILE",
                                           name, did_you_mean(plain, names), fmt::join(names, ", ")));
}

PlannedDevice read_planned_device(const std::string& path) {
  Config file = Config::load(path);
  const ConfigReader root = file.root();
  PlannedDevice device;
  if (root.has("like")) device = known_gpu(root.require<std::string>("like"));
  device.name = root.get("name", device.name.empty() ? "this GPU" : device.name + " (changed)");
  const auto read = [&](const char* key, double& value, double unit) {
    if (root.has(key) || value == 0) value = root.require<double>(key, positive()) * unit;
  };
  read("half", device.half, kTera);
  read("bandwidth", device.bandwidth, kGiga);
  read("host_link", device.host_link, kGiga);
  device.f32 = root.get("f32", device.f32 > 0 ? device.f32 / kTera : device.half / kTera, positive()) * kTera;
  device.fp8 = root.get("fp8", device.fp8 / kTera, at_least(0)) * kTera;
  device.link =
      root.get("link", (device.link > 0 ? device.link : device.host_link) / kGiga, positive()) * kGiga;
  device.sustained = root.get("sustained", device.sustained, Bounds{.min = 0, .max = 1, .above_min = true});
  if (root.has("memory") || device.memory == 0)
    device.memory = static_cast<double>(parse_bytes(root.require<std::string>("memory"), "memory"));
  file.finish();
  return device;
}

double parse_link_rate(const std::string& text, const std::string& key) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  std::erase(unit, ' ');
  struct Unit {
    const char* name;
    double bytes;
  };
  constexpr std::array kUnits{Unit{"Gb/s", 1e9 / 8}, Unit{"Gbps", 1e9 / 8}, Unit{"Gbit/s", 1e9 / 8},
                              Unit{"Mb/s", 1e6 / 8}, Unit{"Mbps", 1e6 / 8}, Unit{"Tb/s", 1e12 / 8},
                              Unit{"GB/s", 1e9},     Unit{"MB/s", 1e6},     Unit{"TB/s", 1e12}};
  const auto* const found = std::ranges::find(kUnits, unit, &Unit::name);
  INGOT_CHECK(error == std::errc() && value > 0 && found != kUnits.end(),
              InvalidConfig(key, fmt::format("'{}' is not a rate; expected one like 400Gb/s (bits) or 50GB/s "
                                             "(bytes)",
                                             text)));
  return value * found->bytes;
}

}  // namespace ingot
