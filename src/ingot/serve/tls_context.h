#pragma once

#include <memory>
#include <string>

namespace boost::asio::ssl {  // NOLINT(readability-identifier-naming): the library's own name
class context;
}

namespace ingot::serve {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

/// For a server: TLS 1.2 and 1.3. Both files are PEM, the first holds the certificate and those between it
/// and the root. InvalidConfig naming the file and what is wrong with it.
TlsContext make_tls_context(const std::string& certificate_file, const std::string& key_file);

}  // namespace ingot::serve
