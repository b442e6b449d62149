// A file system that does not answer, for LD_PRELOAD into stokerd: while the file $HANGING_CONTROL
// exists, each call on a path that begins with a line of it sleeps until the file is gone. All
// paths that the process touches meanwhile are appended to $HANGING_LOG, each once: "M PATH" for
// those of the main thread, "T PATH" for those of others. Children that run another program are
// left alone.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

template <class F>
F real(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

// By system calls, as the functions are our own.
std::string read_raw(const char* path) {
  std::string text;
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  std::array<char, 8192> part{};
  for (long n = 0; (n = ::syscall(SYS_read, fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  ::syscall(SYS_close, fd);
  return text;
}

bool is_there(const char* path) {
  return ::syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

std::string link_of(const std::string& path) {
  std::array<char, 4096> text{};
  const long n = ::syscall(SYS_readlinkat, AT_FDCWD, path.c_str(), text.data(), text.size());
  return n < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(n));
}

bool is_the_daemon() {
  const std::string words = read_raw("/proc/self/cmdline");
  const std::string_view program = words.c_str();
  return program.ends_with("stokerd") &&
         std::string_view(words).substr(program.size() + 1).starts_with("--state");
}

struct Hanging {
  const char* control = std::getenv("HANGING_CONTROL");
  const char* log = std::getenv("HANGING_LOG");
  const pid_t process = ::getpid();
  bool active = control != nullptr && log != nullptr && is_the_daemon();
  std::mutex mutex;
  std::set<std::string> noted;

  static Hanging& of_process() {
    static auto* const one = new Hanging;
    return *one;
  }

  void note(const std::string& path) {
    if (::getpid() != process) return;  // a child before its exec: a thread may hold the mutex
    const bool main = ::syscall(SYS_gettid) == process;
    const std::string line = (main ? "M " : "T ") + path + "\n";
    const std::scoped_lock lock(mutex);
    if (!noted.insert(line).second) return;
    const long fd =
        ::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return;
    ::syscall(SYS_write, fd, line.data(), line.size());
    ::syscall(SYS_close, fd);
  }

  [[nodiscard]] bool holds(const std::string& path) const {
    const std::string lines = read_raw(control);
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = std::min(lines.find('\n', at), lines.size());
      const std::string_view prefix(lines.data() + at, end - at);
      if (!prefix.empty() && std::string_view(path).starts_with(prefix)) return true;
      at = end + 1;
    }
    return false;
  }

  void touch(const std::string& path) {
    if (!active || path.empty() || !is_there(control)) return;
    note(path);
    for (timespec pause{0, 20'000'000}; is_there(control) && holds(path);)
      ::syscall(SYS_nanosleep, &pause, nullptr);
  }
  void touch_at(int folder, const char* path) {
    if (!active || path == nullptr || !is_there(control)) return;
    if (*path == '/') return touch(path);
    const std::string base = folder == AT_FDCWD ? link_of("/proc/self/cwd") : of(folder);
    touch(*path == '\0' ? base : base + "/" + path);
  }
  void touch_fd(int fd) {
    if (active && is_there(control)) touch(of(fd));
  }
  static std::string of(int fd) {
    const std::string path = link_of("/proc/self/fd/" + std::to_string(fd));
    return path.starts_with('/') ? path : "";
  }
};

Hanging& hanging() {
  return Hanging::of_process();
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

// The function of that name: first it touches what WHERE says.
#define HANGING(RESULT, NAME, PARAMETERS, ARGUMENTS, WHERE)                  \
  extern "C" __attribute__((visibility("default"))) RESULT NAME PARAMETERS { \
    hanging().WHERE;                                                         \
    return real<RESULT(*) PARAMETERS>(#NAME) ARGUMENTS;                      \
  }
#define HANGING_OPEN(NAME)                                                                       \
  extern "C" __attribute__((visibility("default"))) int NAME(const char* path, int flags, ...) { \
    va_list more;                                                                                \
    va_start(more, flags);                                                                       \
    const mode_t mode = mode_of(flags, more);                                                    \
    va_end(more);                                                                                \
    hanging().touch_at(AT_FDCWD, path);                                                          \
    return real<int (*)(const char*, int, ...)>(#NAME)(path, flags, mode);                       \
  }
#define HANGING_OPENAT(NAME)                                                               \
  extern "C" __attribute__((visibility("default"))) int NAME(int folder, const char* path, \
                                                             int flags, ...) {             \
    va_list more;                                                                          \
    va_start(more, flags);                                                                 \
    const mode_t mode = mode_of(flags, more);                                              \
    va_end(more);                                                                          \
    hanging().touch_at(folder, path);                                                      \
    return real<int (*)(int, const char*, int, ...)>(#NAME)(folder, path, flags, mode);    \
  }

HANGING_OPEN(open)
HANGING_OPEN(open64)
HANGING_OPENAT(openat)
HANGING_OPENAT(openat64)
HANGING(FILE*, fopen, (const char* path, const char* mode), (path, mode), touch_at(AT_FDCWD, path))
HANGING(FILE*, fopen64, (const char* path, const char* mode), (path, mode),
        touch_at(AT_FDCWD, path))
HANGING(int, stat, (const char* path, struct stat* info), (path, info), touch_at(AT_FDCWD, path))
HANGING(int, lstat, (const char* path, struct stat* info), (path, info), touch_at(AT_FDCWD, path))
HANGING(int, fstatat, (int folder, const char* path, struct stat* info, int flags),
        (folder, path, info, flags), touch_at(folder, path))
HANGING(int, statx, (int folder, const char* path, int flags, unsigned mask, struct statx* info),
        (folder, path, flags, mask, info), touch_at(folder, path))
HANGING(int, statfs, (const char* path, struct statfs* info), (path, info),
        touch_at(AT_FDCWD, path))
HANGING(int, statvfs, (const char* path, struct statvfs* info), (path, info),
        touch_at(AT_FDCWD, path))
HANGING(int, access, (const char* path, int mode), (path, mode), touch_at(AT_FDCWD, path))
HANGING(int, faccessat, (int folder, const char* path, int mode, int flags),
        (folder, path, mode, flags), touch_at(folder, path))
HANGING(int, mkdir, (const char* path, mode_t mode), (path, mode), touch_at(AT_FDCWD, path))
HANGING(int, mkdirat, (int folder, const char* path, mode_t mode), (folder, path, mode),
        touch_at(folder, path))
HANGING(int, chmod, (const char* path, mode_t mode), (path, mode), touch_at(AT_FDCWD, path))
HANGING(int, chown, (const char* path, uid_t user, gid_t group), (path, user, group),
        touch_at(AT_FDCWD, path))
HANGING(int, unlink, (const char* path), (path), touch_at(AT_FDCWD, path))
HANGING(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags),
        touch_at(folder, path))
HANGING(int, remove, (const char* path), (path), touch_at(AT_FDCWD, path))
HANGING(int, rmdir, (const char* path), (path), touch_at(AT_FDCWD, path))
HANGING(int, rename, (const char* from, const char* to), (from, to), touch_at(AT_FDCWD, to))
HANGING(int, renameat, (int of, const char* from, int folder, const char* to),
        (of, from, folder, to), touch_at(folder, to))
HANGING(int, link, (const char* from, const char* to), (from, to), touch_at(AT_FDCWD, to))
HANGING(ssize_t, readlink, (const char* path, char* text, size_t size), (path, text, size),
        touch_at(AT_FDCWD, path))
HANGING(ssize_t, readlinkat, (int folder, const char* path, char* text, size_t size),
        (folder, path, text, size), touch_at(folder, path))
HANGING(int, execve, (const char* path, char* const* words, char* const* environment),
        (path, words, environment), touch_at(AT_FDCWD, path))
HANGING(DIR*, opendir, (const char* path), (path), touch_at(AT_FDCWD, path))
HANGING(ssize_t, read, (int fd, void* to, size_t size), (fd, to, size), touch_fd(fd))
HANGING(ssize_t, pread, (int fd, void* to, size_t size, off_t at), (fd, to, size, at), touch_fd(fd))
HANGING(ssize_t, pread64, (int fd, void* to, size_t size, off64_t at), (fd, to, size, at),
        touch_fd(fd))
HANGING(ssize_t, write, (int fd, const void* from, size_t size), (fd, from, size), touch_fd(fd))
HANGING(ssize_t, pwrite, (int fd, const void* from, size_t size, off_t at), (fd, from, size, at),
        touch_fd(fd))
HANGING(int, fsync, (int fd), (fd), touch_fd(fd))
HANGING(int, fdatasync, (int fd), (fd), touch_fd(fd))
HANGING(int, fstat, (int fd, struct stat* info), (fd, info), touch_fd(fd))
HANGING(int, ftruncate, (int fd, off_t size), (fd, size), touch_fd(fd))
