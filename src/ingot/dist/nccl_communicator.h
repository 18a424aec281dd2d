#pragma once

#include <memory>

#include "ingot/core/device.h"
#include "ingot/dist/communicator.h"
#include "ingot/dist/nccl.h"

namespace ingot::dist {

/// The ranks of `control`, whose memory is that of `device`: each has another one. Operations work in a
/// stream of their own. All ranks call it at once, with an id that one made. CommunicationError where NCCL
/// cannot start. `control`, which says what ranks wait in, has to outlive it.
std::unique_ptr<Communicator> nccl_communicator(Communicator& control, Device device, const NcclId& id);

}  // namespace ingot::dist
