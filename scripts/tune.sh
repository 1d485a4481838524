#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Watch sizes follow a load, and draw it: boot the built guest kernel on 8 nodes of which
# two have memory (TOPOLOGY= chooses another machine), let bios cross from node to node,
# then end that (scripts/guest/tune.sh). Writes build/demo-tune.svg, or FILE, and prints what it shows in
# figures.
#
#   tune.sh [FILE]
#
# Needs the guest kernel, fio, liburing-dev, rsync and gnuplot. Takes four minutes.

. "$(dirname "$0")/lib.sh"

NAME=demo-tune
INSTALLED=$OUT/$NAME
FIGURE=${1:-$OUT/$NAME.svg}
DATA=$OUT/$NAME.data

# max PART COLUMN: the largest number; last: the last one.
max() { awk -v part="$1" -v column="$2" '$1 == part && $column > max { max = $column } END { print max + 0 }' "$DATA"; }
last() { awk -v part="$1" -v column="$2" '$1 == part { last = $column } END { print last + 0 }' "$DATA"; }
sum() { awk -v part="$1" -v column="$2" '$1 == part { sum += $column } END { print sum + 0 }' "$DATA"; }

draw() {
	gnuplot <<END
set terminal svg size 860,720 font "sans-serif,13" background rgb "white"
set output "$FIGURE.new"
set multiplot layout 3,1 title "Bios that cross from node to node: $DESC"
set lmargin 11
set rmargin 3
set grid
set key top right
set style data lines
set xrange [0:*]
start = $(awk 'NR == 1 { print $2 }' "$DATA")
from = $(awk '$1 == "load" { print $2; exit }' "$DATA") - start
to = $(awk '$1 == "load" { t = $2 } END { print t }' "$DATA") - start
set style rectangle fillcolor rgb "#eeeeee" fillstyle solid noborder
set object 1 rectangle from from, graph 0 to to, graph 1 behind
set ylabel "bios in a second"
plot "$DATA" using (\$2-start):8 title "allocated" lw 2 lc rgb "#1b6ca8", \\
     "$DATA" using (\$2-start):9 title "from or to slabs" lw 2 lc rgb "#c0392b"
set ylabel "full sheaves"
plot "$DATA" using (\$2-start):5 title "that a barn accepts" with steps lw 2 lc rgb "#1b6ca8"
set ylabel "kB"
set xlabel "seconds; grey: the load"
plot "$DATA" using (\$2-start):4 title "bios free in sheaves" lw 2 lc rgb "#1b6ca8"
unset multiplot
END
}

args_end_here
need_tool gnuplot fio rsync make gcc
TOPOLOGY=${TOPOLOGY:-nodes8}
export TOPOLOGY
DESC="topology $TOPOLOGY"
[ -e "$OBJ/guest/vmlinux" ] || die "there is no guest kernel, run: make kernel"
mkdir -p "$LOGS"
say "1/3 building the ublk target"
run_logged "$LOGS/$NAME-build.log" install_programs "$TREE" "$OBJ/guest" "$INSTALLED" ||
	die "the selftests do not build, see $(rel "$LOGS/$NAME-build.log")"
say "2/3 booting"
"$SCRIPTS/guest.sh" -n $NAME -t 600 guest "bash $SCRIPTS/guest/tune.sh $INSTALLED/slab" >"$LOGS/$NAME.out"
# with rates: in a second, the last two
sed -n 's/^tune: //p' "$LOGS/$NAME.out" |
	awk '{ dt = NR > 1 ? $2 - t : 1; t = $2; print $0, $6 / dt, $7 / dt }' >"$DATA"
[ "$(sum load 6)" -gt 0 ] || die "no bio was allocated, see $(rel "$LOGS/$NAME.out")"
say "3/3 drawing"
draw
mv "$FIGURE.new" "$FIGURE"

row() { printf '%-34s %10s %10s %10s\n' "$@"; }
seconds() { awk -v part="$1" '$1 == part { from = from ? from : $2; to = $2 } END { print to - from }' "$DATA"; }
row "" rest load after
row "seconds" "$(seconds rest)" "$(seconds load)" "$(seconds after)"
row "bios allocated" "$(sum rest 6)" "$(sum load 6)" "$(sum after 6)"
row "from or to slabs" "$(sum rest 7)" "$(sum load 7)" "$(sum after 7)"
row "full sheaves that a barn accepts" "$(max rest 5)" "$(max load 5)" "$(last after 5)"
row "kB free in sheaves" "$(max rest 4)" "$(max load 4)" "$(last after 4)"
row "kB of Slab" "$(last rest 3)" "$(max load 3)" "$(last after 3)"
say "drawn: $(rel "$FIGURE"), its figures: $(rel "$DATA")"
