# Completion of the braid command for bash: commands and options as --help lists them, else files.
_braid() {
  local word=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null |
      sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p') --help --version" -- "$word")
  elif [ "$COMP_CWORD" -eq 2 ] && [[ ${COMP_WORDS[1]} == explore && $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "tiles kernel" -- "$word")
  elif [[ $word == -* ]]; then
    local command=("${COMP_WORDS[1]}")
    [[ ${COMP_WORDS[1]} != explore || ${COMP_WORDS[2]} != kernel ]] || command+=(kernel)
    [[ ${COMP_WORDS[1]} != simulate || ${COMP_WORDS[2]} != cluster ]] || command+=(cluster)
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null |
      grep -oE '^(      |  -[a-zA-Z?], )--[a-z0-9-]+=?' | grep -oE -- '--[a-z0-9-]+=?')" -- "$word")
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
  fi
}
complete -o default -F _braid braid
