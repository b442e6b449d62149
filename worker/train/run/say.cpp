#include "worker/train/run/say.hpp"

#include <string>
#include <unistd.h>

namespace stoker::train {
namespace {

void write_line(int fd, std::string line) {
  line += '\n';
  // A reader that has gone away must not end the training: errors are ignored on purpose.
  if (::write(fd, line.data(), line.size()) < 0) return;
}

}  // namespace

void say(std::string_view line) {
  write_line(STDOUT_FILENO, std::string(line));
}

void complain(std::string_view line) {
  write_line(STDERR_FILENO, "stoker-train: " + std::string(line));
}

void complain(const Error& error) {
  complain("error: " + error.message());
}

void tell_event(const wire::AgentBody& body) {
  say(wire::kEventLinePrefix + dump_json(Json(body)));
}

}  // namespace stoker::train
