#!/bin/sh
# Builds the virtual environment $1 from scratch: the pinned versions of requirements.lock, and
# this checkout on top. PYTHON names the interpreter; otherwise the first suitable one is taken.
set -eu

VENV=$1

say() {
    printf '%s\n' "$*" >&2
}

# Whether $1 runs and is new enough. It has to be run: a name on PATH may be a version manager's
# placeholder for a Python that is not switched on.
suitable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for python in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        if suitable "$python"; then
            printf '%s\n' "$python"
            return 0
        fi
    done
    say "Anabranch needs Python 3.11 or newer; tried: ${PYTHON:-python3.13 python3.12 python3.11 python3}."
    say "Install one (Debian 12 or newer, Ubuntu 24.04 or newer: sudo apt-get install python3 python3-venv),"
    say "or name the one that you have: make PYTHON=/path/to/python …"
    return 1
}

apt_install() {
    apt-get install -y -qq --no-install-recommends "$1" >&2
}

# Debian packs the part of the standard library that makes environments on its own.
ensure_venv() {
    if "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        return 0
    fi
    versioned=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "$1 cannot make virtual environments: installing Debian's package for it."
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq >&2 &&
            { apt_install "$versioned" || apt_install python3-venv; } &&
            return 0
    fi
    say "$1 cannot make virtual environments. On Debian and Ubuntu: sudo apt-get install $versioned"
    return 1
}

python=$(find_python)
ensure_venv "$python"
say "Building $VENV with $("$python" -V); the first time this downloads some 600 MB."
rm -rf "$VENV"
"$python" -m venv "$VENV"
# The build tool comes first and builds what has no wheel (PySpark): left to itself, pip would
# fetch whichever version of it is newest on that day.
install="$VENV/bin/python -m pip install --quiet --disable-pip-version-check --no-deps"
$install "$(grep '^setuptools==' requirements.lock)"
$install --use-pep517 --no-build-isolation --requirement requirements.lock
$install --use-pep517 --no-build-isolation --editable .
"$VENV/bin/python" -m pip check >&2
