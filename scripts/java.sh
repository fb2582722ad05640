#!/bin/sh
# Prints the home of a Java that Spark runs on: 17 or newer, from JAVA_HOME, PATH or /usr/lib/jvm.
# Where there is none, installs Debian's headless JRE if the user is root; otherwise says what to
# install, and fails.
set -eu

OLDEST=17

say() {
    printf '%s\n' "$*" >&2
}

# The home of the Java whose executable is $1, if it runs and is new enough. Java is asked for it:
# what is on PATH may be a link, or a wrapper far away from the real thing.
home_of() {
    properties=$("$1" -XshowSettings:properties -version 2>&1) || return 1
    version=$(printf '%s\n' "$properties" | sed -n 's/^ *java\.specification\.version = //p')
    case $version in
        '' | *[!0-9]*) return 1 ;; # "1.8" and older are written with a dot
    esac
    [ "$version" -ge "$OLDEST" ] || return 1
    printf '%s\n' "$properties" | sed -n 's/^ *java\.home = //p'
}

find_java() {
    for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java /usr/lib/jvm/*/bin/java; do
        if command -v "$java" >/dev/null 2>&1 && home_of "$java"; then
            return 0
        fi
    done
    return 1
}

install_java() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "No Java $OLDEST or newer found: installing Debian's headless JRE."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 || return 1
    # Releases of Debian differ in the versions that they carry; the default one is the last resort.
    for package in "openjdk-$OLDEST-jre-headless" default-jre-headless; do
        if apt-get install -y -qq --no-install-recommends "$package" >&2; then
            return 0
        fi
    done
    return 1
}

if find_java || { install_java && find_java; }; then
    exit 0
fi
say "Spark needs Java $OLDEST or newer, and there is none in JAVA_HOME, on PATH or in /usr/lib/jvm."
say "Install one of these, or set JAVA_HOME to the Java that you have:"
say "  Debian, Ubuntu:  sudo apt-get install openjdk-$OLDEST-jre-headless"
say "                   (or default-jre-headless, where that package does not exist)"
say "  Fedora, RHEL:    sudo dnf install java-21-openjdk-headless"
say "  macOS:           brew install openjdk@$OLDEST"
exit 1
