#!/bin/sh
# Installs Debian's Chromium, in which the playground is tested, where that can be done unasked.
# Never asks for a password; where it cannot be had, says so and ends well: those tests are skipped.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
skipped="The playground's tests in a browser are skipped"
command -v apt-get >/dev/null 2>&1 || { echo "$skipped: there is no Chromium, and no apt-get to install it by."; exit 0; }
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true >/dev/null 2>&1 || { echo "$skipped: there is no Chromium; install it by: sudo apt-get install chromium"; exit 0; }
    as_root="sudo -n"
fi
echo "Installing Chromium for the playground's tests (about a minute)"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 && exit 0
$as_root apt-get update -qq >/dev/null 2>&1
$as_root apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 && exit 0
echo "$skipped: apt-get could not install chromium."
