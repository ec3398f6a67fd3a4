# SPDX-License-Identifier: Apache-2.0
from espalier._binary import main

main()
