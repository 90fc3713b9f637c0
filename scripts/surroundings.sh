#!/bin/sh
# Runs `make test` in a new clone, in surroundings that are not a developer's own:
#   sh scripts/surroundings.sh [background] [stdin] [home] [tmp] [bare] [twice] [user]
# Without names, in all of them. PYTEST_ADDOPTS chooses tests, e.g. PYTEST_ADDOPTS=tests/runs.
# The clone lies in a path with spaces; what is committed is tested. `user` needs root.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"; [ -z "${account-}" ] || userdel -r "$account" 2>/dev/null' EXIT
clone="$scratch/a clone"
git clone -q "$here" "$clone"
cd "$clone"

surroundings() {
    case $1 in
    background) # where a shell that is not interactive ignores Ctrl-C
        nohup make test & wait $! ;;
    stdin)
        make test <&- ;;
    home) # which nobody can write to, not even root
        HOME=/proc/none make test ;;
    tmp)
        mkdir -p "$scratch/other tmp"
        TMPDIR="$scratch/other tmp" make test ;;
    bare) # neither a browser nor a compiler, nor any variable
        mkdir -p "$scratch/bin"
        for tool in cat git grep id make mkdir od rm sed sh touch tr uname; do
            ln -sf "$(command -v $tool)" "$scratch/bin/$tool"
        done
        ln -sf "$(python3 -c 'import sys; print(sys.executable)')" "$scratch/bin/python3"
        env -i HOME="$scratch" PATH="$scratch/bin" PYTEST_ADDOPTS="${PYTEST_ADDOPTS-}" make test ;;
    twice)
        make .venv/.dev-installed
        make test >"$scratch/first" 2>&1 & first=$!
        make test || { kill $first; return 1; }
        wait $first || { cat "$scratch/first"; return 1; } ;;
    user)
        [ "$(id -u)" -eq 0 ] || { echo "user: skipped, because only root can make an account."; return 0; }
        account=crosslearning-$$
        useradd --create-home "$account"
        git clone -q "$here" "/home/$account/clone"
        chown -R "$account" "/home/$account/clone"
        su "$account" -s /bin/sh -c "cd && mkdir tmp && exec env -i HOME=/home/$account TMPDIR=/home/$account/tmp \
            PATH=/usr/local/bin:/usr/bin:/bin PYTEST_ADDOPTS='${PYTEST_ADDOPTS-}' make -C clone test" ;;
    *)
        echo "'$1' is none of: background, stdin, home, tmp, bare, twice, user"; return 1 ;;
    esac
}

[ $# -gt 0 ] || set -- background stdin home tmp bare twice user
for name in "$@"; do
    echo "== $name"
    surroundings "$name"
done
