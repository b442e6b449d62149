// What never goes into a support bundle: secrets that are known (values of train.environment, of
// the sinks' options, content of the secret files), and what looks like one (passwords, tokens,
// keys, logins in addresses). Names stay, values go; so do values of environment variables that are
// no secret, and stoker's own tokens of submissions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"

namespace stoker::cli::support {

class Redactor {
 public:
  explicit Redactor(std::vector<std::string> known);
  ~Redactor();
  Redactor(Redactor&&) noexcept;
  Redactor& operator=(Redactor&&) noexcept;

  // Text of any kind; a document or lines of JSON are read, and values of keys that name a secret
  // are hidden whole.
  [[nodiscard]] std::string clean(std::string_view text);
  [[nodiscard]] std::size_t hidden() const;  // so far

 private:
  struct Patterns;
  std::vector<std::string> known_;  // longest first
  std::unique_ptr<Patterns> patterns_;
};

// Secrets that a policy holds or names: values of `train.environment`, options of sinks, the
// content of their files as far as it can be read.
std::vector<std::string> secrets_of(const Json& policy);
// Values of the variables that its orders, up to 64, give the ranks.
std::vector<std::string> secrets_of_orders(const std::string& run_directory);

}  // namespace stoker::cli::support
