#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boot the built guest kernel with a short load, and print a screenful: kernel,
# machine, KUnit totals, who served the busiest caches. Needs the guest kernel.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

"$SCRIPTS/boot.sh" "${CONFIG:-guest}" "python3 -B $SCRIPTS/guest/report.py"
