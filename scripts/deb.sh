#!/bin/sh
# Builds the Debian package: deb.sh BERTH DIR writes DIR/berth_VERSION_ARCH.deb from the program BERTH, the unit, the
# sample configuration, man pages, completions, the pages of docs and the examples. Equal sources give equal bytes; SOURCE_DATE_EPOCH dates the files.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
berth=$(realpath "$1")
out=$2
mkdir -p "$out"
out=$(realpath "$out")
# A version with a hyphen is before the release: Debian writes that with a tilde.
version=$("$berth" version | sed 's/^Berth //; s/-/~/g')
arch=$(dpkg --print-architecture)
: "${SOURCE_DATE_EPOCH:=0}"
export SOURCE_DATE_EPOCH

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

install -D -m 755 "$berth" "$root/usr/bin/berth"
install -D -m 644 "$here/packaging/berth.service" "$root/usr/lib/systemd/system/berth.service"
install -D -m 644 "$here/examples/agent.hcl" "$root/etc/berth.d/berth.hcl"
install -d -m 700 "$root/etc/berth"
install -D -m 644 "$here/LICENSE" "$root/usr/share/doc/berth/copyright"
# Pages and examples lie to each other as in the sources, so that links from one to another hold.
(cd "$here" && find docs examples -type f -exec install -D -m 644 '{}' "$root/usr/share/doc/berth/{}" ';')

man=$root/usr/share/man/man1
(cd "$here" && go run ./tools/man "$man" "$berth")
gzip -9 -n "$man"/*.1

completions() {
	mkdir -p "$root/usr/share/$2"
	"$berth" completion "$1" >"$root/usr/share/$2/$3"
}
completions bash bash-completion/completions berth
completions zsh zsh/vendor-completions _berth
completions fish fish/vendor_completions.d berth.fish

mkdir "$root/DEBIAN"
for script in postinst prerm postrm; do
	install -m 755 "$here/packaging/$script" "$root/DEBIAN/$script"
done
echo /etc/berth.d/berth.hcl >"$root/DEBIAN/conffiles"
size=$(du -sk --exclude=DEBIAN "$root" | cut -f1)
cat >"$root/DEBIAN/control" <<END
Package: berth
Version: $version
Architecture: $arch
Section: admin
Priority: optional
Installed-Size: $size
Maintainer: The Berth authors <berth@example.invalid>
Recommends: e2fsprogs, mount, ca-certificates
Suggests: xfsprogs
Description: orchestrator for jobs that have state
 Berth runs jobs on machines and keeps their volumes through crashes of tasks, of
 storage plugins and of itself. It takes the job files, the HTTP API and the
 command lines that users of HashiCorp Nomad know.
END
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group --build "$root" "$out/berth_${version}_$arch.deb"
