#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/hub/hub_client.h"
#include "ingot/hub/s3.h"

// Everything that a server or a configuration file says in text. The first byte chooses the parser.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'h':
        ingot::hub::parse_hub_listing(text, "input");
        break;
      case 's':
        ingot::hub::parse_s3_page(text, "input");
        break;
      case 'a':
        ingot::hub::parse_aws_profile(text, "default");
        break;
      case 'r':
        ingot::hub::parse_hub_repo(text);
        break;
      case 'u':
        ingot::hub::parse_s3_url(text);
        break;
      default:
        ingot::hub::parse_content_range(text);
        break;
    }
  } catch (const ingot::Error&) {  // refused, as it should be
  }
  return 0;
}
