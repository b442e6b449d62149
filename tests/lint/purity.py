"""What deciders may not know: the folders core/, lead/ and recipe/ give the same answer for the same input, everywhere.

No clock, random number, thread, environment, file or process; no container whose order depends on addresses or hashes; of libm
only what IEEE 754 rounds exactly (sqrt, floor and the like), as the others differ from one library to the next. Names of other
folders that reach the machine (common/os, monotonic_now) count too. To add an exception, add its file and why it decides nothing.
"""
import re

from safety import code_of

FOLDERS = ("core/", "lead/", "recipe/")
HEADERS = {"algorithm", "array", "bit", "charconv", "cmath", "compare", "concepts", "csignal", "cstddef", "cstdint", "cstdlib", "cstring",
           "deque", "fmt/format.h", "fmt/ranges.h", "functional", "initializer_list", "iterator", "limits", "map", "memory", "numbers",
           "numeric", "optional", "set", "span", "string", "string_view", "tuple", "type_traits", "utility", "variant", "vector"}
WORDS = {
    "reads a clock": r"\b(?:monotonic_now|wall_now|steady_clock|system_clock|high_resolution_clock|clock_gettime|gettimeofday|localtime(?:_r)?)\b"
                     r"|(?<![\w.>])(?:::|std::)?time\((?:nullptr|NULL|0|&\w+)\)",
    "takes a random number": r"\b(?:random_device|mt19937(?:_64)?|minstd_rand0?|default_random_engine|getrandom|getentropy|arc4random)\b"
                             r"|(?<![\w.>])(?:::|std::)?(?:rand|random|drand48)\(",
    "uses threads": r"\bstd::(?:jthread|thread|async|mutex|shared_mutex|atomic|atomic_\w+|condition_variable|future|promise|call_once)\b|\bthread_local\b",
    "reads the environment": r"(?<![\w.>])(?:::|std::)?(?:secure_)?(?:getenv|setenv|putenv)\(|\benviron\b",
    "reaches for files or processes": r"\bos::|\bstd::(?:i|o)?fstream\b|\bstd::filesystem\b|(?<![\w.>])(?:::|std::)?(?:fopen|freopen|tmpfile)\("
                                      r"|(?<![\w.>:])::(?:open|openat|read|write|stat|unlink|rename|fork|kill|socket|getpid|gethostname)\(",
    "has no order of its own": r"\bstd::(?:pmr::)?unordered_\w+|\bstd::hash\b|\b(?:map|set)<[^<>,]*\*\s*[,>]",
    "keeps state beside the state": r"^\s+static (?!const\b|constexpr\b|inline\b|_?assert|auto\b|[\w:<>, ]+ \w+\()[\w:<>]+[ &]+\w+\s*[;{=]",
    "differs between libraries": r"(?<![\w.>])(?:::|std::)?(?:exp2?|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan2?|sinh|cosh|tanh|cbrt|"
                                 r"hypot|erfc?|[lt]gamma)f?\(",
}
ENGINE = "the engine around step(): it calls the ports, which belong to the daemon"
MAY = {
    ("core/engine/perform.cpp", "reaches for files or processes"): ENGINE,
    ("core/engine/ports.hpp", "reaches for files or processes"): ENGINE,
    ("recipe/lr_schedule.cpp", "differs between libraries"): "the training's learning rate; the resume audit records the libraries",
    ("recipe/what_if.cpp", "differs between libraries"): "a forecast that people read; nothing is decided by it",
}
OS_HEADERS = {"core/engine/perform.cpp", "core/engine/ports.hpp"}


def impure(names, read):
    for name in names:
        if not name.startswith(FOLDERS):
            continue
        text = read(name)
        for line, kind, target in ((text.count("\n", 0, m.start()) + 1, m.group(1), m.group(2))
                                   for m in re.finditer(r'^\s*#include\s+(["<])([^">]+)[">]', text, re.M)):
            if kind == "<" and target not in HEADERS:
                yield f"{name}:{line}: <{target}> is no header of a decider (tests/lint/purity.py lists them)"
            if target.startswith("common/os/") and name not in OS_HEADERS:
                yield f"{name}:{line}: {target} reaches for files or processes"
        code = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code_of(text))
        for what, pattern in WORDS.items():
            if (name, what) in MAY:
                continue
            for m in re.finditer(pattern, code, re.M):
                yield f"{name}:{code.count(chr(10), 0, m.start()) + 1}: {m.group().strip()} {what}"
