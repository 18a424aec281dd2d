#pragma once

#include <memory>
#include <string>

#include "ingot/base/error.h"
#include "ingot/dist/communicator.h"

namespace ingot::dist {

/// Communication between ranks cannot begin or went wrong.
class CommunicationError : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "communication_error"; }
};

/// All ranks of MPI's world. Loads Open MPI and initializes it; CommunicationError where it is missing.
std::unique_ptr<Communicator> mpi_communicator();

}  // namespace ingot::dist
