#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Remove what was built, and what was found: all logs and results, those of check-all, too.
# Kernel sources and packages in build/dl, the venv and the compiler cache stay, and so does
# a tree with edits that are not in the repository. Prints what it keeps.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

for dir in "$BUILD" "$BUILD"/src-*; do
	[ -d "$dir" ] || continue
	for d in "$dir"/*; do
		case ${d##*/} in
		dl | venv | ccache | src-*) ;;
		linux)
			TREE=$d
			if [ -n "$(tree_unsaved)" ]; then
				say "kept $(rel "$d"): it has $(tree_unsaved)"
			else
				rm -rf "$d"
			fi
			;;
		linux-source-*) ;;
		*) rm -rf "$d" ;;
		esac
	done
	rmdir --ignore-fail-on-non-empty "$dir"
done
