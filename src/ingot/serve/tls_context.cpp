#include "ingot/serve/tls_context.h"

#include <boost/asio/ssl/context.hpp>

#include "ingot/base/error.h"
#include "ingot/serve/libssl.h"

namespace ingot::serve {

TlsContext make_tls_context(const std::string& certificate_file, const std::string& key_file) {
  namespace ssl = boost::asio::ssl;
  static_cast<void>(libssl());  // where it is missing, say so
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                       ssl::context::no_tlsv1_1);
  context->use_certificate_chain_file(certificate_file, error);
  INGOT_CHECK(!error, InvalidConfig("tls_cert",
                                    certificate_file +
                                        " cannot be used as a certificate in PEM form: " + error.message()));
  // Without a password: a server has nobody to ask.
  context->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); });
  context->use_private_key_file(key_file, ssl::context::pem, error);
  INGOT_CHECK(!error,
              InvalidConfig("tls_key", key_file + " cannot be used as the key of " + certificate_file +
                                           ", in PEM form without a password: " + error.message()));
  INGOT_CHECK(SSL_CTX_check_private_key(context->native_handle()) == 1,
              InvalidConfig("tls_key", key_file + " is not the key of " + certificate_file));
  return context;
}

}  // namespace ingot::serve
