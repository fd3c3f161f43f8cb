package evidence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/port/kv"
	"berth/internal/wire"
)

// Given what a plugin can put in the place of an id file, when the file is read, then it is refused by its name, with
// the reason: nobody waits for a pipe, follows a link, or has a file without end in memory.
func TestWhatIsNoIDFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	codec := kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}
	for kind, c := range map[string]struct {
		make func(name string) error
		want string
	}{
		"huge": {func(name string) error {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(name, 1<<40)
		}, "it has 1 TiB"},
		"pipe":      {func(name string) error { return unix.Mkfifo(name, 0o600) }, "no regular file"},
		"link":      {func(name string) error { return os.Symlink("/dev/zero", name) }, "symbolic links"},
		"directory": {func(name string) error { return os.Mkdir(name, 0o700) }, "no regular file"},
	} {
		name := filepath.Join(dir, kind+".id")
		if err := c.make(name); err != nil {
			t.Fatal(err)
		}
		_, err := ReadIDFile(codec, name)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
