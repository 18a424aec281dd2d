#pragma once

#include <memory>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

// The format: https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html

namespace ingot {

/// The datasets of an HDF5 file by their paths ("model_weights/dense/dense/kernel:0"), as h5py and Keras
/// write them: numbers in one piece, or in chunks that may be compressed (deflate, shuffle); text attributes
/// of the root become metadata ("keras_version"). Datasets in one piece alias a mapped file. Links to other
/// files are never followed. FormatError names file, offset and field; NotImplemented what newer files may
/// use besides (groups too large for their header, other indices of chunks, other filters).
std::unique_ptr<WeightSource> open_hdf5(Blob blob);

/// Whether a file begins as HDF5 files do.
bool is_hdf5(std::span<const std::byte> start);

}  // namespace ingot
