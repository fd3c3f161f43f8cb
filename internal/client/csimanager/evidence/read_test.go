package evidence

import (
	"errors"
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

// Given a plugin that puts a symbolic link in the place of the directory of id files, when they are read, and those
// that a crash left are removed, then that is refused by the path, and what lies behind the link is as it was.
func TestNoDirectoryOfIDFilesIsFollowedElsewhere(t *testing.T) {
	data, elsewhere := t.TempDir(), t.TempDir()
	codec := kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}
	var behind []string
	for _, name := range []string{"a.id", "a.id.tmp"} {
		path := filepath.Join(elsewhere, name)
		behind = append(behind, path)
		if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plugin := filepath.Join(csiDir(data), "plugin")
	err := errors.Join(os.MkdirAll(plugin, 0o700), os.Symlink(elsewhere, filepath.Join(plugin, "s")))
	if err != nil {
		t.Fatal(err)
	}
	names, err := IDFiles(data)
	if err != nil || len(names) != 2 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		_, err := ReadIDFile(codec, name)
		if !errors.Is(err, unix.ELOOP) || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%s is read with %v", name, err)
		}
		if err := write(name, nil); !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s is written with %v", name, err)
		}
	}
	for _, path := range behind {
		if got, err := os.ReadFile(path); string(got) != "theirs" {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
}
