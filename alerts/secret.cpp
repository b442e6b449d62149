#include "alerts/secret.hpp"

namespace stoker::alerts {

std::string masked(std::string text, const std::vector<std::string>& secrets) {
  constexpr std::size_t kShortest = 4;
  for (const std::string& secret : secrets)
    if (secret.size() >= kShortest)
      for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret, at + 3))
        text.replace(at, secret.size(), "***");
  return text;
}

}  // namespace stoker::alerts
