#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# cc.sh COMPILER ARGUMENT...: runs it by ccache, but not for assembly. With CCACHE_DEPEND, ccache
# does not see an .incbin, and may give what was included another time: in the zImage of arm,
# that is a whole kernel.
#
# Needs ccache. Prints what the compiler does, and exits as it does.

set -eu

case " $* " in
*.S\ *) exec "$@" ;;
esac
exec ccache "$@"
