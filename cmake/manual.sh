#!/bin/sh
# Manual pages from what the command says of itself: manual.sh FOLDER BRAID, after an emulator's words if it needs one
set -eu
folder=$1
shift
mkdir -p "$folder"
# page NAME TITLE, the text on standard input
page() {
  {
    printf '.TH "%s" 1 "" "%s" "Braid"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' "$1" "$version" "$1" "$2"
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\\([.']\\)/\\\\\\&\\1/"
    printf '.fi\n'
    [ "$1" = braid ] || printf '.SH SEE ALSO\n.BR braid (1)\n'
  } >"$folder/$1.1.part"
  mv "$folder/$1.1.part" "$folder/$1.1"
}
version=$("$@" --version)
"$@" --help | sed -n 's/^  \([a-z][a-z]*\)  *\(.*\)/\1 \2/p' | while read -r command summary; do
  "$@" "$command" --help | page "braid-$command" "$summary"
done
"$@" --help | page braid "trains and runs neural networks on the devices of a machine"
