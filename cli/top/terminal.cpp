// The one file that knows ncurses. Its macros stay in here.
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include "cli/top/terminal.hpp"

#include <array>
#include <clocale>
#include <csignal>
#include <cstring>
#include <curses.h>
#include <cwchar>
#include <langinfo.h>
#include <map>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#undef lines
#undef columns
#undef tab
#undef newline

namespace stoker::cli::top {
namespace {

constexpr int kEscapeDelay_ms = 50;  // how long a sequence may follow an Escape

// What an abort writes to give the terminal back: made in advance, since nothing may be computed
// then.
struct Rescue {
  int out = -1;
  termios before{};
  char text[256] = {};
  std::size_t size = 0;
};
Rescue g_rescue;
struct sigaction g_abort_before {};

extern "C" void rescue_terminal(int signal) {
  const auto written = ::write(g_rescue.out, g_rescue.text, g_rescue.size);
  static_cast<void>(written);
  ::tcsetattr(g_rescue.out, TCSANOW, &g_rescue.before);
  ::sigaction(signal, &g_abort_before, nullptr);
  ::raise(signal);
}

void prepare_rescue(int out, const termios& before) {
  g_rescue = {};
  g_rescue.out = out;
  g_rescue.before = before;
  for (const char* name : {"sgr0", "cnorm", "rmkx", "rmcup"}) {
    const char* code = ::tigetstr(name);
    if (code == nullptr || code == reinterpret_cast<const char*>(-1)) continue;
    const std::size_t size = std::strlen(code);
    if (g_rescue.size + size > sizeof g_rescue.text) break;
    std::memcpy(g_rescue.text + g_rescue.size, code, size);
    g_rescue.size += size;
  }
  struct sigaction handler {};
  handler.sa_handler = rescue_terminal;
  ::sigaction(SIGABRT, &handler, &g_abort_before);
}

// newterm() takes these signals for itself. Those that end a program stay the caller's; those of
// the terminal's size and of Ctrl-Z are given back at the end.
constexpr std::array kEnds = {SIGINT, SIGTERM};
constexpr std::array kOfTerminal = {SIGTSTP, SIGWINCH};
std::array<struct sigaction, kOfTerminal.size()> g_handlers_before{};

screen* new_terminal(const std::string& type, std::FILE* in, std::FILE* out) {
  std::array<struct sigaction, kEnds.size()> ends{};
  for (std::size_t i = 0; i < kEnds.size(); ++i) ::sigaction(kEnds[i], nullptr, &ends[i]);
  for (std::size_t i = 0; i < kOfTerminal.size(); ++i)
    ::sigaction(kOfTerminal[i], nullptr, &g_handlers_before[i]);
  screen* const handle = ::newterm(type.c_str(), out, in);
  for (std::size_t i = 0; i < kEnds.size(); ++i) ::sigaction(kEnds[i], &ends[i], nullptr);
  return handle;
}

std::string utf8_of(wint_t character) {
  const auto c = static_cast<std::uint32_t>(character);
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

std::optional<Key> function_key(wint_t code) {
  static const std::map<wint_t, KeyKind> kinds = {{KEY_UP, KeyKind::Up},
                                                  {KEY_DOWN, KeyKind::Down},
                                                  {KEY_LEFT, KeyKind::Left},
                                                  {KEY_RIGHT, KeyKind::Right},
                                                  {KEY_PPAGE, KeyKind::PageUp},
                                                  {KEY_NPAGE, KeyKind::PageDown},
                                                  {KEY_HOME, KeyKind::Home},
                                                  {KEY_END, KeyKind::End},
                                                  {KEY_ENTER, KeyKind::Enter},
                                                  {KEY_BTAB, KeyKind::BackTab},
                                                  {KEY_F(1), KeyKind::Help},
                                                  {KEY_F(10), KeyKind::Quit},
                                                  {KEY_BACKSPACE, KeyKind::Backspace}};
  const auto found = kinds.find(code);
  if (found == kinds.end()) return std::nullopt;
  return Key{found->second, ""};
}

std::optional<Key> character_key(wint_t code) {
  switch (code) {
    case 27: return Key{KeyKind::Escape, ""};
    case '\r':
    case '\n': return Key{KeyKind::Enter, ""};
    case '\t': return Key{KeyKind::Tab, ""};
    case 127:
    case 8: return Key{KeyKind::Backspace, ""};
  }
  if (code < 32) return std::nullopt;
  return Key{KeyKind::Text, utf8_of(code)};
}

}  // namespace

std::string Terminal::why_not(const std::string& type, int in, int out) {
  if (::isatty(in) != 1 || ::isatty(out) != 1) return "input and output are not a terminal";
  if (type.empty()) return "TERM is not set";
  if (type == "dumb") return "TERM=dumb";
  int error = 0;
  if (::setupterm(type.c_str(), out, &error) != OK) return "this host does not know TERM=" + type;
  const char* address = ::tigetstr("cup");
  const bool moves = address != nullptr && address != reinterpret_cast<const char*>(-1);
  ::del_curterm(::cur_term);
  return moves ? "" : "TERM=" + type + " cannot move its cursor";
}

Result<std::unique_ptr<Terminal>> Terminal::open(const std::string& type, std::FILE* in,
                                                 std::FILE* out, bool color) {
  if (std::string why = why_not(type, ::fileno(in), ::fileno(out)); !why.empty())
    return fail("cannot open the full screen: " + why);
  termios before{};
  ::tcgetattr(::fileno(out), &before);
  std::setlocale(LC_CTYPE, "");
  ::use_tioctl(TRUE);  // the terminal's size, not what LINES once said
  screen* const handle = new_terminal(type, in, out);
  if (handle == nullptr) return fail("ncurses cannot use this terminal", type);
  prepare_rescue(::fileno(out), before);
  return std::unique_ptr<Terminal>(new Terminal(handle, ::fileno(in), color));
}

Terminal::Terminal(screen* handle, int in, bool color)
    : handle_(handle), in_(in), color_(color && ::has_colors() == TRUE) {
  utf8_ = std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
  ::set_term(handle_);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(::stdscr, TRUE);
  ::nodelay(::stdscr, TRUE);
  ::set_escdelay(kEscapeDelay_ms);
  // Terminals that send the arrows in their other mode: an Escape and letters would be read.
  const std::pair<const char*, int> arrows[] = {{"\033[A", KEY_UP},    {"\033[B", KEY_DOWN},
                                                {"\033[C", KEY_RIGHT}, {"\033[D", KEY_LEFT},
                                                {"\033[H", KEY_HOME},  {"\033[F", KEY_END}};
  for (const auto& [sequence, code] : arrows) ::define_key(sequence, code);
  ::curs_set(0);
  if (!color_) return;
  ::start_color();
  ::use_default_colors();
  const std::pair<Shade, short> colors[] = {{Shade::Good, COLOR_GREEN},
                                            {Shade::Warn, COLOR_YELLOW},
                                            {Shade::Bad, COLOR_RED},
                                            {Shade::Info, COLOR_CYAN}};
  for (const auto& [shade, foreground] : colors)
    ::init_pair(static_cast<short>(shade), foreground, -1);
}

Terminal::~Terminal() {
  ::endwin();
  ::delscreen(handle_);
  for (std::size_t i = 0; i < kOfTerminal.size(); ++i)
    ::sigaction(kOfTerminal[i], &g_handlers_before[i], nullptr);
  ::sigaction(SIGABRT, &g_abort_before, nullptr);
}

int Terminal::rows() const {
  return getmaxy(::stdscr);
}

int Terminal::columns() const {
  return getmaxx(::stdscr);
}

unsigned long Terminal::look_of(const Cell& cell) const {
  unsigned long look = cell.inverse ? A_REVERSE : A_NORMAL;
  switch (cell.shade) {
    case Shade::Plain: return look;
    case Shade::Dim: return look | (cell.inverse ? A_NORMAL : A_DIM);
    case Shade::Bold: return look | A_BOLD;
    case Shade::Bad: look |= A_BOLD; break;
    case Shade::Good:
    case Shade::Warn:
    case Shade::Info: break;
  }
  return color_ ? look | COLOR_PAIR(static_cast<int>(cell.shade)) : look;
}

void Terminal::draw(const Cells& cells) {
  for (int row = 0; row < cells.rows(); ++row) {
    if (drawn_ && cells.same_row(*drawn_, row)) continue;
    ::move(row, 0);
    for (int column = 0; column < cells.columns(); ++column) {
      const Cell& cell = cells.at(row, column);
      if (cell.text.empty()) continue;
      ::attrset(static_cast<int>(look_of(cell)));
      const bool foreign = static_cast<unsigned char>(cell.text[0]) >= 0x80 && !utf8_;
      const bool wide = column + 1 < cells.columns() && cells.at(row, column + 1).text.empty();
      ::mvaddstr(row, column, foreign ? (wide ? "??" : "?") : cell.text.c_str());
    }
  }
  ::attrset(A_NORMAL);
  ::refresh();
  drawn_ = cells;
}

std::optional<Key> Terminal::key(bool& resized) {
  for (;;) {
    wint_t code = 0;
    const int kind = ::get_wch(&code);
    if (kind == ERR) return std::nullopt;
    constexpr wint_t kRedraw = 12;  // Ctrl-L
    if ((kind == KEY_CODE_YES && code == KEY_RESIZE) || (kind == OK && code == kRedraw)) {
      resized = true;
      drawn_.reset();
      ::erase();
      ::clearok(::curscr, TRUE);
      continue;
    }
    if (auto key = kind == KEY_CODE_YES ? function_key(code) : character_key(code)) return key;
  }
}

}  // namespace stoker::cli::top
