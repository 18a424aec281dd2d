#pragma once

#include <memory>
#include <string>

#include "ingot/hub/hub_client.h"
#include "ingot/weights/weight_source.h"

namespace ingot::hub {

/// The file or directory that a person means by `model`, fetched first where it is elsewhere. In this order:
///   a path that exists              itself
///   hf://org/name[@revision][/file] pulled from the Hub into its cache
///   https://…                       a file, kept in Ingot's cache; on the Hub's own pages, the repository
///   s3://bucket/key, s3://bucket/prefix/   a file, or the files below it, kept in Ingot's cache
///   org/name[@revision]             from the Hub's cache; never fetched without being asked to
/// Anything else is returned as it is: whoever opens it knows best what is missing. Throws HttpError,
/// IoError, or InvalidConfig; an `org/name` that is not in the cache says how to pull it.
std::string resolve_model(const std::string& model);

/// Whether `model` is an `org/name` of the Hub that is neither a path here nor in the cache: "hf://" before
/// it fetches it.
bool is_not_fetched(const std::string& model);

/// Whether `model` is a .safetensors file on a server: open_weights then needs no copy of it.
bool is_remote_safetensors(const std::string& model);

/// The tensors of `model`, as resolve_model finds it; but of a .safetensors file on a server only what is
/// loaded is fetched.
std::unique_ptr<WeightSource> open_weights(const std::string& model);

}  // namespace ingot::hub
