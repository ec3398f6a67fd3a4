# SPDX-License-Identifier: Apache-2.0
# Turns a text file into a header with a string constant. Raw string literals are limited to 64 KiB by some compilers, so the text
# is cut into pieces that the preprocessor joins.
file(READ ${IN} text)
string(LENGTH "${text}" length)
set(pieces "")
set(begin 0)
while(begin LESS length)
  string(SUBSTRING "${text}" ${begin} 8000 piece)
  string(APPEND pieces "R\"espalier(${piece})espalier\"\n")
  math(EXPR begin "${begin}+8000")
endwhile()
file(WRITE ${OUT} "// Generated from ${SYMBOL}.\n#pragma once\n#include <string_view>\nnamespace espalier::embedded {\ninline constexpr std::string_view ${SYMBOL} =\n${pieces};\n}\n")
