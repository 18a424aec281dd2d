#include "ingot/cli/one_process.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/dist/communicator.h"

namespace ingot::cli {

void check_one_process(std::string_view command) {
  INGOT_CHECK(!dist::is_launched(),
              InvalidConfig("mpirun", fmt::format("`ingot {}` works as one process, and a launcher started "
                                                  "several; start it alone (`ingot train`, `forecast fit` of "
                                                  "a network, `mahjong train` and `tune` take several)",
                                                  command)));
}

}  // namespace ingot::cli
