"""python -m braid is the command."""

from braid_command import main

main()
