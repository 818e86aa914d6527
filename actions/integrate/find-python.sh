#!/usr/bin/env bash
# Prints the CPython to install the toolkit for: the first argument that will do, else one of this machine's own.
#
# actions/setup-python may offer none in a container, or one of the runner's that does not run there; the python3 of an
# image may be too old, or lack venv; manylinux images have theirs in /opt/python. What is missing is one message.
set -uo pipefail

#: As tools/install.py has it.
OLDEST=11 NEWEST=14
GIT=2.39

found="$(git --version 2>/dev/null)"
version="${found#git version }"
IFS=. read -r major minor _ <<<"${version:-0.0}"
if ! ((major > ${GIT%.*} || (major == ${GIT%.*} && minor >= ${GIT#*.}))); then
  echo "error[tool-missing]: git $GIT or newer is needed; here is ${found:-none}" >&2
  echo "  to do: install it on the runner, or use a container image that has it (docs/integrate.md, On GitHub)" >&2
  exit 3
fi

candidates=("$@")
for number in 12 13 14 11; do
  candidates+=("python3.$number" "/opt/python/cp3$number-cp3$number/bin/python")
done
tried=()
for python in "${candidates[@]}" python3; do
  [ -n "$python" ] || continue
  said="$("$python" -Ic 'import ensurepip, platform, sys, venv; print(*sys.version_info[:2], platform.python_implementation())' 2>&1)"
  if [[ "$said" =~ ^3\ ([0-9]+)\ CPython$ ]]; then
    if ((BASH_REMATCH[1] >= OLDEST && BASH_REMATCH[1] <= NEWEST)); then
      command -v "$python"
      exit
    fi
    tried+=("$python is 3.${BASH_REMATCH[1]}")
  elif [[ "$said" == *ensurepip* || "$said" == *venv* ]]; then
    tried+=("$python has no venv (Debian: python3-venv)")
  fi
done
echo "error[no-python]: there is no CPython 3.$OLDEST to 3.$NEWEST with venv for the toolkit" >&2
[ ${#tried[@]} -eq 0 ] || printf '  why: %s\n' "${tried[@]}" >&2
echo "  to do: install python3.12 with venv on the runner, or use a container image that has it" >&2
exit 3
